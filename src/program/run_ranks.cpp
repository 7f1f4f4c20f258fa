#include "src/program/run_ranks.h"

#include <fmt/format.h>

#include <numeric>
#include <string>
#include <vector>

#include "src/program/create_comms.h"
#include "src/program/launcher.h"
#include "src/program/launcher_detection.h"
#include "src/program/run_threads.h"

namespace tutti::program {
namespace {

// A refused call leaves the communicator well, and the other ranks are about to be refused too: whoever left or aborted
// at once would replace their error by a lost peer.
void let_others_be_refused(tutti_comm* comm) {
  tutti_comm_state_kind state = TUTTI_COMM_FAILED;
  if (tutti_comm_state(comm, &state) != TUTTI_SUCCESS || state != TUTTI_COMM_READY) return;
  tutti_call call = TUTTI_CALL_INIT;
  call.timeout_ns = 2'000'000'000;
  tutti_barrier(comm, {TUTTI_STREAM_BLOCKING, nullptr}, &call);
}

// Runs the body on a communicator that is there, and takes leave of it.
int run_member(const RankMember& member, Output& output, const std::function<int(const RankMember&)>& body) {
  int code = body(member);
  if (code == kGood) {
    const tutti_status status = tutti_comm_finalize(member.comm);
    if (status != TUTTI_SUCCESS) code = output.fail_as(member.rank, member.comm, status);
  } else if (code != kWrongData) {
    if (code == kWrongUse) let_others_be_refused(member.comm);
    // Wrong data is found by all ranks together; any other failure may be this rank's alone.
    tutti_comm_abort(member.comm);
  }
  tutti_comm_destroy(member.comm);
  return code;
}

// The ranks that this process is.
struct Own {
  int first;
  int count;
  int ranks;       // of all processes
  int local_rank;  // the first one's
};

void abort_all(const std::vector<tutti_comm*>& comms) {
  for (tutti_comm* comm : comms) tutti_comm_abort(comm);  // all before the first, whose destruction waits
  for (tutti_comm* comm : comms) tutti_comm_destroy(comm);
}

// Runs the body on each of this process's communicators, on threads of their own, and tells the worst error.
int run_on_threads(const Own& own, const std::vector<tutti_comm*>& comms, const RankOptions& ranks, Output& output,
                   const std::function<int(const RankMember&)>& body) {
  output.collect();
  std::vector<int> codes(comms.size(), kGood);
  const std::string sentence = run_threads(own.count, [&](int i) {
    const size_t at = static_cast<size_t>(i);
    if (ranks.bind == "core") pin_to_core(own.local_rank + i);
    codes[at] = run_member({comms[at], own.first + i, own.ranks}, output, body);
  });
  if (!sentence.empty()) {
    abort_all(comms);
    codes.front() = output.fail(kFailed, sentence);
  }
  const int code = output.result(std::accumulate(codes.begin(), codes.end(), int{kGood}, worse));
  output.tell_worst();
  return code;
}

// Overflow is the callers' to exclude.
std::string too_many(int64_t processes, int64_t each) {
  constexpr int64_t kMost = 65536;
  if (processes * each <= kMost) return "";
  return fmt::format("{} processes of {} ranks each are {}, more than the {} that a job may have; ask for fewer", processes,
                     each, processes * each, kMost);
}

int join(const LauncherRank& place, const RankOptions& ranks, const tutti_config* config, Output& output,
         const std::function<int(const RankMember&)>& body) {
  output.set_rank(place.rank);
  if (const std::string why = too_many(place.ranks, ranks.each); !why.empty()) return output.fail(kWrongUse, why);
  const int each = static_cast<int>(ranks.each);
  const Own own = {place.rank * each, each, place.ranks * each, place.local_rank * each};
  // Before the library's threads are made, which inherit it.
  if (each == 1 && ranks.bind == "core" && !pin_to_core(own.local_rank)) {
    return output.fail(kFailed, "--bind core was refused by the system; leave it out");
  }
  if (const int code = output.open(); code != kGood) return code;
  const Created created =
      create(static_cast<size_t>(each), config, [&](std::size_t i, tutti_comm** comm, const tutti_config* given) {
        // With one rank a process, the launcher's own numbers hold.
        return each == 1 ? tutti_comm_create_address(comm, "env://", -1, -1, given)
                         : tutti_comm_create_address(comm, "env://", own.ranks, own.first + static_cast<int>(i), given);
      });
  if (created.code != kGood) return output.fail(created.code, created.sentence);
  if (each > 1) return run_on_threads(own, created.comms, ranks, output, body);
  return output.result(run_member({created.comms.front(), own.first, own.ranks}, output, body));
}

int run_threads(const RankOptions& ranks, const tutti_config* config, Output& output,
                const std::function<int(const RankMember&)>& body) {
  if (const std::string why = too_many(ranks.ranks, ranks.each); !why.empty()) return output.fail(kWrongUse, why);
  const int n = static_cast<int>(ranks.ranks * ranks.each);
  tutti_unique_id id;
  const Created created =
      create(static_cast<size_t>(n), config, [&](std::size_t rank, tutti_comm** comm, const tutti_config* own) {
        const tutti_status made = rank == 0 ? tutti_get_unique_id(&id) : TUTTI_SUCCESS;
        if (made != TUTTI_SUCCESS) return made;
        return tutti_comm_create(comm, n, &id, static_cast<int>(rank), own);
      });
  if (created.code != kGood) return output.fail(created.code, created.sentence);
  return run_on_threads({0, n, n, 0}, created.comms, ranks, output, body);
}

}  // namespace

void add_rank_options(Options& options, RankOptions& ranks) {
  options.integer("--ranks", &ranks.ranks, 1, 4096,
                  "Local ranks to start; under mpirun, srun or torchrun their number of ranks holds");
  options.flag("--threads", &ranks.threads, "Local ranks are threads of this process, not processes");
  options.choice("--bind", &ranks.bind, {"core", "none"},
                 "Pins each rank to a core of its own, or leaves that to the system");
}

int run_ranks(const Options& options, const RankOptions& ranks, char** argv, const tutti_config* config, Output& output,
              const std::function<int(const RankMember&)>& body) {
  const auto [place, refusal] = detect_launcher();
  if (!refusal.empty()) return output.fail(kWrongUse, refusal);
  const bool local = options.given("--ranks") || ranks.threads;
  if (place && (place->ranks > 1 || !local || place->launcher == "TUTTI_RANK")) {
    output.set_rank(place->rank);
    if (ranks.threads) {
      return output.fail(kWrongUse,
                         fmt::format("--threads was given, but {} has started {} ranks already; leave one of them out",
                                     place->launcher, place->ranks));
    }
    if (options.given("--ranks") && ranks.ranks != place->ranks) {
      return output.fail(kWrongUse, fmt::format("--ranks {} was given, but {} has started {}; leave --ranks out",
                                                ranks.ranks, place->launcher, place->ranks));
    }
    return join(*place, ranks, config, output, body);
  }
  if (const int code = output.open(); code != kGood) return code;
  if (ranks.threads || ranks.ranks == 1) return run_threads(ranks, config, output, body);
  return launch_local(static_cast<int>(ranks.ranks), argv, output);
}

}  // namespace tutti::program
