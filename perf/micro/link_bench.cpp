// What one link of a transport carries, without the library above it: two processes over the table of transport.h.
//
//     tutti-bench-link TRANSPORT|PLUGIN.so [BYTES...]
//
// Prints for each length the time one way of a ping-pong in microseconds, and the rate of a stream in MB/s. Both are
// medians of rounds. Messages are written into the link's room, and read where they arrive.
#include <dlfcn.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "include/tutti/transport.h"
#include "src/base/clock.h"
#include "src/links/transport_loader.h"
#include "transports/registry.h"

namespace {

using tutti::Deadline;
using tutti::kSecond;
using tutti::now_ns;

constexpr std::uint32_t slots = 16;
constexpr std::uint64_t slot_bytes = 1 << 20;
constexpr int rounds = 31;
constexpr std::uint64_t round_ns = kSecond / 50;  ///< about as long as a round is made
constexpr std::uint64_t longest_wait_ns = 30 * kSecond;

/// code: 2 where the arguments are wrong.
[[noreturn]] void die(const std::string& why, int code = 1) {
  std::fprintf(stderr, "tutti-bench-link: %s\n", why.c_str());
  std::_Exit(code);  // the other process ends by its own deadline, or sees this one's end
}

const tutti_transport& transport_of(const std::string& name) {
  for (const tutti_transport* each : tutti::builtin_transports()) {
    if (name == each->name) return *each;
  }
  void* const library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) die("there is no transport " + name + ", and no plugin: " + ::dlerror(), 2);
  std::string why;
  const tutti_transport* const plugin = tutti::exported_transport(library, why);
  if (plugin == nullptr) die(name + " cannot be used: " + why, 2);
  return *plugin;
}

/// One process's end of a pair of links, one each way.
class End {
 public:
  /// other: a socket to the other process.
  End(const tutti_transport& transport, int rank, int other) : t_(transport), rank_(rank), other_(other) {
    key_.fill(7);
    tutti_endpoint_config config{};
    config.size = sizeof config;
    config.rank = rank;
    config.ranks = 2;
    config.key = key_.data();
    config.connect_timeout_ns = longest_wait_ns;
    std::array<char, TUTTI_WHY_MAX> why{};
    if (t_.open(&config, &endpoint_, why.data(), why.size()) != TUTTI_SUCCESS) die(why.data());
    exchange();
    sender_ = open(TUTTI_LINK_SENDS);
    receiver_ = open(TUTTI_LINK_RECEIVES);
    await(sender_);
    await(receiver_);
  }
  ~End() {
    t_.close_link(sender_);
    t_.close_link(receiver_);
    meet();  // who closes first resets what the other has not read
    t_.close(endpoint_);
  }
  End(const End&) = delete;
  End& operator=(const End&) = delete;

  int rank() const { return rank_; }
  /// Sends the next message.
  void send(std::uint64_t bytes) {
    tutti_room room{};
    wait(sender_, [&] { return t_.reserve(sender_, bytes, bytes, &room); });
    std::memset(room.data, static_cast<int>(sent_++), bytes);
    if (t_.commit(sender_, bytes, bytes) != TUTTI_LINK_OK) die(failure(sender_));
  }
  /// Takes the next message.
  void receive(std::uint64_t bytes) {
    tutti_message message{};
    wait(receiver_, [&] { return t_.view(receiver_, &message); });
    if (message.bytes != bytes) die("a message came with another length than it was sent with");
    std::memcpy(sink_.data(), message.data, bytes);
    t_.release(receiver_);
  }
  /// All that was sent is on its way without this process.
  void flush() {
    wait(sender_, [&] { return t_.flushed(sender_); });
    wait(receiver_, [&] { return t_.flushed(receiver_); });
  }
  /// Both processes have come to this.
  void meet() {
    char byte = 0;
    if (::write(other_, &byte, 1) != 1) die("the other process is gone");
    const Deadline deadline = Deadline::in(longest_wait_ns);
    while (::recv(other_, &byte, 1, MSG_DONTWAIT) != 1) {
      if (deadline.passed()) die("the other process has not come");
      t_.progress(endpoint_);
      sched_yield();
    }
  }

 private:
  void exchange() {
    std::array<unsigned char, TUTTI_DESCRIPTOR_MAX> own{};
    const std::size_t length = t_.describe(endpoint_, own.data());
    peer_.resize(TUTTI_DESCRIPTOR_MAX);
    if (::send(other_, own.data(), length, 0) != static_cast<ssize_t>(length)) die("the other process is gone");
    const ssize_t got = ::recv(other_, peer_.data(), peer_.size(), 0);
    if (got <= 0) die("the other process is gone");
    peer_.resize(static_cast<std::size_t>(got));
  }
  tutti_link* open(tutti_direction direction) {
    const tutti_link_params params{.size = sizeof(tutti_link_params),
                                   .direction = direction,
                                   .peer = 1 - rank_,
                                   .descriptor = peer_.data(),
                                   .descriptor_length = peer_.size(),
                                   .channel = 1,
                                   .slots = slots,
                                   .slot_bytes = slot_bytes};
    tutti_link* link = nullptr;
    std::array<char, TUTTI_WHY_MAX> why{};
    if (t_.open_link(endpoint_, &params, &link, why.data(), why.size()) != TUTTI_SUCCESS) die(why.data());
    return link;
  }
  void await(tutti_link* link) {
    tutti_link_state state{};
    wait(link, [&] { return t_.link_state(link, &state); });
  }
  std::string failure(tutti_link* link) const {
    std::array<char, TUTTI_WHY_MAX> why{};
    return t_.failure(link, why.data(), why.size()) == TUTTI_LINK_OK ? "the link failed" : why.data();
  }
  /// Makes progress until the link answers.
  template <typename Ask>
  void wait(tutti_link* link, Ask ask) {
    constexpr std::uint32_t look_every = 1024;
    const Deadline deadline = Deadline::in(longest_wait_ns);
    for (std::uint32_t turns = 1;; ++turns) {
      const tutti_link_result result = ask();
      if (result == TUTTI_LINK_OK) return;
      if (result == TUTTI_LINK_BROKEN) die(failure(link));
      if (turns % look_every == 0 && deadline.passed()) die("nothing came for 30 s");
      if (t_.progress(endpoint_) != TUTTI_LINK_OK && turns % look_every == 0) sched_yield();
    }
  }

  const tutti_transport& t_;
  const int rank_;
  const int other_;
  std::array<unsigned char, 32> key_{};
  tutti_endpoint* endpoint_ = nullptr;
  std::vector<unsigned char> peer_;
  tutti_link* sender_ = nullptr;
  tutti_link* receiver_ = nullptr;
  std::uint64_t sent_ = 0;
  std::vector<unsigned char> sink_ = std::vector<unsigned char>(slot_bytes);
};

/// Nanoseconds that rank 0 takes for `count` messages there, each answered by one as long.
std::uint64_t ping_pong(End& end, std::uint64_t bytes, std::uint64_t count) {
  end.meet();
  const std::uint64_t begun = now_ns();
  for (std::uint64_t i = 0; i < count; ++i) {
    if (end.rank() == 0) end.send(bytes);
    end.receive(bytes);
    if (end.rank() == 1) end.send(bytes);
  }
  end.flush();
  return now_ns() - begun;
}

/// Nanoseconds for `count` messages from rank 0 to rank 1, of which the last is answered.
std::uint64_t stream(End& end, std::uint64_t bytes, std::uint64_t count) {
  end.meet();
  const std::uint64_t begun = now_ns();
  for (std::uint64_t i = 0; i < count; ++i) end.rank() == 0 ? end.send(bytes) : end.receive(bytes);
  end.rank() == 0 ? end.receive(0) : end.send(0);
  end.flush();
  return now_ns() - begun;
}

using Measure = std::uint64_t (*)(End&, std::uint64_t, std::uint64_t);

/// Nanoseconds a message, the median of all rounds. Both ranks count alike: rank 0's first round tells how many there are.
double median_ns(End& end, Measure measure, std::uint64_t bytes, int other) {
  constexpr std::uint64_t first = 32;
  std::uint64_t count =
      std::clamp<std::uint64_t>(round_ns * first / std::max<std::uint64_t>(1, measure(end, bytes, first)), 4, 100'000);
  if (end.rank() == 0 ? ::write(other, &count, sizeof count) != sizeof count
                      : ::recv(other, &count, sizeof count, MSG_WAITALL) != sizeof count) {
    die("the other process is gone");
  }
  std::array<double, rounds> each{};
  for (double& ns : each) ns = static_cast<double>(measure(end, bytes, count)) / static_cast<double>(count);
  std::nth_element(each.begin(), each.begin() + rounds / 2, each.end());
  return each[rounds / 2];
}

void run(const tutti_transport& transport, int rank, int other, const std::vector<std::uint64_t>& lengths) {
  End end(transport, rank, other);
  if (rank == 0) std::printf("%10s  %12s  %12s\n", "bytes", "one way us", "stream MB/s");
  for (const std::uint64_t bytes : lengths) {
    const double there_and_back = median_ns(end, ping_pong, bytes, other);
    const double each = median_ns(end, stream, bytes, other);
    if (rank != 0) continue;
    std::printf("%10llu  %12.2f  %12.1f\n", static_cast<unsigned long long>(bytes), there_and_back / 2 / 1000,
                static_cast<double>(bytes) / each * 1000);
    std::fflush(stdout);
  }
}

std::vector<std::uint64_t> lengths_of(int argc, char** argv) {
  std::vector<std::uint64_t> lengths;
  for (int i = 2; i < argc; ++i) {
    char* end = nullptr;
    lengths.push_back(std::strtoull(argv[i], &end, 10));
    if (*end != '\0' || end == argv[i] || lengths.back() > slot_bytes) {
      die(std::string(argv[i]) + " is no length in bytes up to 1048576", 2);
    }
  }
  if (lengths.empty()) lengths = {8, 64, 512, 4096, 65536, 262144, 1048576};
  return lengths;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || std::string_view(argv[1]).starts_with("-")) {
    std::fprintf(stderr, "Usage: tutti-bench-link TRANSPORT|PLUGIN.so [BYTES...]\n");
    return argc < 2 ? 2 : 0;
  }
  const tutti_transport& transport = transport_of(argv[1]);
  const std::vector<std::uint64_t> lengths = lengths_of(argc, argv);
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) die("no pair of sockets");
  const pid_t child = ::fork();
  if (child < 0) die("no process");
  const int rank = child == 0 ? 1 : 0;
  ::close(ends[1 - rank]);
  run(transport, rank, ends[rank], lengths);
  if (child == 0) return 0;
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
