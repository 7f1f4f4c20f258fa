// Aborts, deadlines and mismatches at random moments, while calls run on streams and blocking. Every call ends within what
// is promised, and the devices are usable afterwards.
//
// TEST_SEED is the seed; TEST_WHOLE=1 tries 500 moments instead of 20 (label cuda-long).
#include <atomic>
#include <cstdlib>
#include <random>

#include "tests/device/calls.h"
#include "tests/device/device_fixture.h"

namespace tutti::test {
namespace {

constexpr int kRanks = 4;
constexpr std::uint64_t kLimitNs = kSecondNs / 2;

/// What ends a communicator's calls.
enum class Cause { abort, deadline, mismatch };
const char* name_of(Cause cause) {
  constexpr const char* names[] = {"an abort", "a deadline", "a mismatch"};
  return names[static_cast<int>(cause)];
}

/// One attempt, drawn.
struct Attempt {
  Cause cause;
  int places;
  int culprit;  ///< the rank that aborts, stays away or differs
  bool on_stream;
  std::size_t count;
  std::chrono::microseconds after;

  explicit Attempt(std::mt19937_64& random)
      : cause(static_cast<Cause>(random() % 3)),
        places(1 + static_cast<int>(random() % 3)),
        culprit(static_cast<int>(random() % kRanks)),
        on_stream(random() % 2 == 0),
        count(random() % 3 == 0 ? 50'000 : 300),
        after(random() % 20'000) {}
  std::string text() const {
    return std::string(name_of(cause)) + " by rank " + std::to_string(culprit) + ", " + std::to_string(places) +
           " places, " + std::to_string(count) + " elements, " + (on_stream ? "on streams" : "blocking") + ", after " +
           std::to_string(after.count()) + " us";
  }
  /// What the calls may come to.
  bool explains(tutti_status status) const {
    if (cause == Cause::abort) return status == TUTTI_ABORTED;
    if (cause == Cause::deadline) return status == TUTTI_TIMEOUT;
    return status == TUTTI_MISMATCH;
  }
};

/// A rank calls until a call fails; the status of that. The culprit does its deed in between.
class RankLoop {
 public:
  RankLoop(const Attempt& attempt, const DeviceRank& rank, std::atomic<std::uint64_t>& done_ns)
      : attempt_(attempt),
        rank_(rank),
        done_ns_(done_ns),
        send_(MemoryKind::device, attempt.count * sizeof(float)),
        recv_(MemoryKind::device, attempt.count * sizeof(float)) {}

  tutti_status run() {
    const auto moment = std::chrono::steady_clock::now() + attempt_.after;
    // Far more calls than can be made until the moment.
    for (int n = 0; n < 1'000'000; ++n) {
      if (rank_.rank == attempt_.culprit && std::chrono::steady_clock::now() >= moment) return do_it();
      if (const tutti_status status = call(Verb::all_reduce, n % 8 == 7); status != TUTTI_SUCCESS) return status;
    }
    return TUTTI_SUCCESS;
  }

 private:
  tutti_status call(Verb verb, bool waits) {
    const CollectiveCase of{.verb = verb, .type = TUTTI_FLOAT32, .count = attempt_.count};
    if (!attempt_.on_stream) return issue(of, send_.data(), recv_.data(), rank_.comm, {});
    if (!waits) return issue(of, send_.data(), recv_.data(), rank_.comm, on(rank_.stream));
    // So that no stream runs away.
    tutti_work* work = nullptr;
    tutti_call options = TUTTI_CALL_INIT;
    options.work = &work;
    tutti_status status = issue(of, send_.data(), recv_.data(), rank_.comm, on(rank_.stream), options);
    if (status == TUTTI_SUCCESS) status = tutti_work_wait(work, 0);
    tutti_work_release(work);
    return status;
  }

  tutti_status do_it() {
    done_ns_ = clock_ns();
    if (attempt_.cause == Cause::abort) {
      EXPECT_EQ(tutti_comm_abort(rank_.comm), TUTTI_SUCCESS);
      EXPECT_LE(clock_ns() - done_ns_, kPromisedEndNs);
    } else if (attempt_.cause == Cause::mismatch) {
      // Where it was done before it showed, the next call says so.
      if (const tutti_status status = call(Verb::broadcast, true); status != TUTTI_SUCCESS) return status;
    } else {
      tutti_comm_state_kind state = TUTTI_COMM_READY;
      EXPECT_TRUE(cuda::eventually(
          [&] { return tutti_comm_state(rank_.comm, &state) == TUTTI_SUCCESS && state == TUTTI_COMM_FAILED; }));
    }
    return call(Verb::all_reduce, true);
  }

  const Attempt& attempt_;
  const DeviceRank& rank_;
  std::atomic<std::uint64_t>& done_ns_;
  const Memory send_;
  const Memory recv_;
};

class RandomAborts : public DeviceTest {};

TEST_F(RandomAborts, EndEveryCallInTimeAndLeaveDevicesUsable) {
  const char* const seed = std::getenv("TEST_SEED");
  std::mt19937_64 random(seed != nullptr ? std::strtoull(seed, nullptr, 10) : 1);
  const int attempts = std::getenv("TEST_WHOLE") != nullptr ? 500 : 20;
  for (int n = 0; n < attempts && !HasFailure(); ++n) {
    const Attempt attempt(random);
    SCOPED_TRACE("attempt " + std::to_string(n) + ": " + attempt.text());
    const DeviceRanks ranks({.ranks = kRanks, .places = attempt.places});
    MeetingPoint point(kRanks);
    std::atomic<std::uint64_t> done_ns{0};
    ranks.run([&](const DeviceRank& rank) {
      expect_sums(rank, {}, rank.stream);
      EXPECT_EQ(tutti_comm_set_timeout(rank.comm, attempt.cause == Cause::deadline ? kLimitNs : 0), TUTTI_SUCCESS);
      RankLoop loop(attempt, rank, done_ns);
      point.meet();
      const std::uint64_t begun_ns = clock_ns();
      const tutti_status status = loop.run();
      rank.stream.wait();
      const std::uint64_t limit = attempt.cause == Cause::deadline ? kLimitNs : 0;
      if (attempt.cause == Cause::deadline && done_ns == 0) {
        // The machine is so busy that a call was late before anybody stayed away.
        EXPECT_GE(clock_ns() - begun_ns, limit) << attempt.text() << ", rank " << rank.rank;
      } else {
        EXPECT_LE(clock_ns() - done_ns, limit + kPromisedEndNs) << attempt.text() << ", rank " << rank.rank;
      }
      EXPECT_TRUE(attempt.explains(status)) << attempt.text() << ", rank " << rank.rank << ": " << last_error();
      point.meet();
    });
    if (n % 10 == 0) expect_places_work(kRanks, attempt.places);
  }
  expect_places_work(kRanks, 2);
}

}  // namespace
}  // namespace tutti::test
