// The cost of a transfer while many others are outstanding. One rank posts COUNT transfers of one int32 on a queue, each
// with its own tag. The other rank then matches them one by one with blocking calls.
//
//     tutti-bench-outstanding TRANSPORT sends|receives forward|backward|shuffled threads|processes COUNT...
//
// Prints nanoseconds per transfer for each count: wall time of posting and of matching, and CPU time of both ranks. Small
// counts are repeated. The pause between posting and matching is not counted.
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "include/tutti/tutti.h"

namespace {

constexpr std::size_t least_transfers = 200'000;

struct RunPlan {
  std::string transport;
  bool sends_wait = true;  ///< outstanding are sends, else receives
  std::string order;
  bool threads = true;
  std::vector<std::size_t> counts;
};

double seconds(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

void check(tutti_status status, const char* what) {
  if (status == TUTTI_SUCCESS) return;
  tutti_error error{};
  error.size = sizeof error;
  tutti_error_get(nullptr, &error);
  std::fprintf(stderr, "%s: %s | %s\n", what, error.message, error.remedy);
  std::exit(1);
}

std::vector<std::uint64_t> tags(const RunPlan& plan, std::size_t count) {
  std::vector<std::uint64_t> order(count);
  std::iota(order.begin(), order.end(), std::uint64_t{0});
  if (plan.order == "backward") std::reverse(order.begin(), order.end());
  if (plan.order == "shuffled") std::shuffle(order.begin(), order.end(), std::mt19937_64(7));
  return order;
}

tutti_status transfer(bool sends, std::int32_t* value, std::uint64_t tag, int peer, tutti_comm* comm, tutti_stream stream) {
  tutti_call call = TUTTI_CALL_INIT;
  call.tag = tag;
  return sends ? tutti_send(value, 1, TUTTI_INT32, peer, comm, stream, &call)
               : tutti_recv(value, 1, TUTTI_INT32, peer, comm, stream, &call);
}

/// The rank whose transfers are outstanding.
double post_all(const RunPlan& plan, tutti_comm* comm, tutti_queue* queue, std::vector<std::int32_t>& values) {
  const double begun = seconds(CLOCK_MONOTONIC);
  for (std::size_t i = 0; i < values.size(); ++i) {
    check(transfer(plan.sends_wait, &values[i], i, 1, comm, {TUTTI_STREAM_QUEUE, queue}), "post");
  }
  return seconds(CLOCK_MONOTONIC) - begun;
}

void match_all(const RunPlan& plan, tutti_comm* comm, const std::vector<std::uint64_t>& order) {
  for (const std::uint64_t tag : order) {
    auto value = static_cast<std::int32_t>(tag);
    check(transfer(!plan.sends_wait, &value, tag, 0, comm, {}), "match");
    if (value != static_cast<std::int32_t>(tag)) std::abort();
  }
}

struct Times {
  double posting = 0;
  double matching = 0;
  double cpu = 0;
};

void measure(const RunPlan& plan, int rank, tutti_comm* comm, tutti_queue* queue, std::size_t count) {
  std::vector<std::int32_t> values(rank == 0 ? count : 0);
  std::iota(values.begin(), values.end(), 0);
  const std::vector<std::uint64_t> order = tags(plan, rank == 1 ? count : 0);
  const std::size_t rounds = std::max<std::size_t>(1, least_transfers / count) + 1;
  Times sum;
  for (std::size_t round = 0; round < rounds; ++round) {
    check(tutti_barrier(comm, {}, nullptr), "barrier");
    Times times;
    const double cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
    if (rank == 0) times.posting = post_all(plan, comm, queue, values);
    const double cpu_posted = seconds(CLOCK_PROCESS_CPUTIME_ID);
    check(tutti_barrier(comm, {}, nullptr), "barrier");
    if (count >= 100'000) usleep(100'000);
    check(tutti_barrier(comm, {}, nullptr), "barrier");
    const double begun = seconds(CLOCK_MONOTONIC);
    const double cpu_begun = seconds(CLOCK_PROCESS_CPUTIME_ID);
    if (rank == 1) match_all(plan, comm, order);
    if (rank == 0) check(tutti_queue_wait(queue, 0), "wait");
    check(tutti_barrier(comm, {}, nullptr), "barrier");
    times.matching = seconds(CLOCK_MONOTONIC) - begun;
    times.cpu = seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu_begun + cpu_posted - cpu;
    if (rounds > 2 && round == 0) continue;
    sum = {sum.posting + times.posting, sum.matching + times.matching, sum.cpu + times.cpu};
  }
  const double each = 1e9 / static_cast<double>(count * (rounds > 2 ? rounds - 1 : rounds));
  double cpu = sum.cpu;
  if (!plan.threads) check(tutti_all_reduce(&sum.cpu, &cpu, 1, TUTTI_FLOAT64, TUTTI_SUM, comm, {}, nullptr), "sum");
  if (rank != 0) return;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::printf("%-4s %-8s %-8s %-9s %8zu  post %7.0f  match %7.0f  together %7.0f  cpu %7.0f  rss %ld MiB\n",
              plan.transport.c_str(), plan.sends_wait ? "sends" : "receives", plan.order.c_str(),
              plan.threads ? "threads" : "processes", count, sum.posting * each, sum.matching * each,
              (sum.posting + sum.matching) * each, cpu * each, usage.ru_maxrss / 1024);
  std::fflush(stdout);
}

void run(const RunPlan& plan, int rank, tutti_comm* comm) {
  tutti_queue* queue = nullptr;
  check(tutti_queue_create(&queue), "queue");
  for (const std::size_t count : plan.counts) measure(plan, rank, comm, queue, count);
  check(tutti_queue_destroy(queue), "queue");
}

tutti_config config_of(const RunPlan& plan) {
  tutti_config config = TUTTI_CONFIG_INIT;
  config.transports = plan.transport.c_str();
  return config;
}

void run_threads(const RunPlan& plan) {
  const tutti_config config = config_of(plan);
  tutti_comm* comms[2] = {};
  check(tutti_comm_create_all(comms, 2, &config), "create");
  std::thread other([&] { run(plan, 1, comms[1]); });
  run(plan, 0, comms[0]);
  other.join();
  for (tutti_comm* comm : comms) tutti_comm_destroy(comm);
}

void run_processes(const RunPlan& plan) {
  const std::string address = "file:///tmp/tutti-bench-outstanding-" + std::to_string(getpid());
  const pid_t child = fork();
  const int rank = child == 0 ? 1 : 0;
  const tutti_config config = config_of(plan);
  tutti_comm* comm = nullptr;
  check(tutti_comm_create_address(&comm, address.c_str(), 2, rank, &config), "create");
  run(plan, rank, comm);
  tutti_comm_destroy(comm);
  if (child == 0) std::exit(0);
  int status = 0;
  waitpid(child, &status, 0);
  if (status != 0) std::exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 6) {
    std::fprintf(stderr, "usage: %s TRANSPORT sends|receives forward|backward|shuffled threads|processes COUNT...\n",
                 argv[0]);
    return 2;
  }
  RunPlan plan;
  plan.transport = argv[1];
  plan.sends_wait = std::string(argv[2]) == "sends";
  plan.order = argv[3];
  plan.threads = std::string(argv[4]) == "threads";
  for (int i = 5; i < argc; ++i) plan.counts.push_back(std::strtoull(argv[i], nullptr, 10));
  plan.threads ? run_threads(plan) : run_processes(plan);
  return 0;
}
