// Inside the control plane: its state and the watcher. Included by control*.cpp only.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "src/base/poller.h"
#include "src/control/control.h"
#include "src/control/frame_channel.h"
#include "src/control/mismatch.h"

namespace tutti {

class ControlPlane::Impl {
 public:
  /// kAround: a query for which the target's neighbours say what they know, too.
  enum Frame : std::uint8_t { kGoodbye = 1, kHeartbeat, kFailure, kGather, kQuery, kReply, kAround };
  enum class LinkState { kOpen, kLeft, kDead };

  /// What befell a rank: the sentence's verb and what follows, and its remedy.
  struct Loss {
    std::string what;
    std::string remedy;
  };

  /// One neighbour.
  struct Link {
    FrameChannel channel;
    Member about;
    LinkState state = LinkState::kOpen;
    std::uint64_t heard_ns = 0;
    std::optional<Activity> last;          ///< as its last heartbeat, or its goodbye, told
    std::unique_ptr<ActivityBoard> board;  ///< its page, where it is on this machine
    UniqueFd process;                      ///< pidfd, where pids mean the same here and there
    std::uint64_t ended_ns = 0;            ///< when its process was seen to have ended; 0: runs
    Loss loss;                             ///< why it is dead
    std::uint64_t told_ns = 0;             ///< when that is to be told as this rank sees it; 0: it has been

    bool open() const { return state == LinkState::kOpen; }
    /// What is known of its rank without asking.
    std::optional<Activity> known() const {
      if (!board || !board->valid()) return last;
      Activity latest = board->read();
      if (last) latest.exchanges = last->exchanges;  // which the board does not tell
      return latest;
    }
    Activity activity() const { return known().value_or(Activity{}); }
    PeerReport report(PeerReport::State how) const {
      const auto known_of_it = known();
      return {about.rank, how, known_of_it.has_value(), known_of_it.value_or(Activity{})};
    }
  };

  /// Questions under way. What has no answer after half of the time is asked again by all ways at once: somebody on the way
  /// may be stopped. In a forked child nobody is asked.
  class Survey final : public Inquiry {
   public:
    Survey(Impl& impl, std::span<const int> ranks, Deadline deadline);
    ~Survey() override;
    bool over() override;
    std::vector<PeerReport> reports() override;
    /// Sleeps until there is something to look at, at most `ns`; whether it is over.
    bool wait(std::uint64_t ns);

   private:
    friend class Impl;
    Survey(Impl& impl, std::size_t questions, Deadline deadline);
    bool over_locked();

    Impl& impl_;
    const Deadline deadline_;
    const std::uint64_t first_;  ///< the number of the first question; the others follow
    std::uint64_t ask_all_ways_at_ns_;
    std::vector<PeerReport> reports_;
    std::size_t open_ = 0;  ///< questions without an answer
  };

  explicit Impl(const Options& options);
  /// Starts the watcher. Errors: TUTTI_SYSTEM_ERROR.
  Status start();
  bool in_child() const;
  Status child_error() const;

  void add_link(UniqueFd fd, const Member& about);
  void set_members(std::vector<Member> members);
  void report(const Status& failure) noexcept;
  void set_callback(OnFailure callback);
  void leave() noexcept;
  /// At exit: a last goodbye, without waiting for anything.
  void farewell();

  std::vector<PeerReport> survey(std::span<const int> ranks, const WaitLimits& wait_limits);
  Result<std::vector<std::vector<std::byte>>> allgather(std::span<const std::byte> mine, const WaitLimits& wait_limits,
                                                        const Purpose& purpose);
  Error death_of(const PeerReport& peer, const std::string& how) const;
  Error leave_of(const PeerReport& peer) const;
  Member member_locked(int rank) const;
  /// Of this rank, and of a neighbour that has ended.
  std::optional<PeerReport> known_here(int target);
  /// Adds what this rank knows of one whose link to it is open.
  void add_hearsay(PeerReport& report) const;

  const Options options_;
  const int pid_;
  ActivityBoard board_;
  std::atomic<bool> failed_{false};
  mutable std::mutex mutex_;  // guards everything below, except where said
  std::condition_variable changed_;
  Status first_error_;
  std::vector<Member> members_;

 private:
  // control_watcher.cpp: the thread.
  void run();
  void watch_once();
  int timeout_ms();
  void handle(const Poller::Event& event);
  void read_from(Link& link);
  bool take(Link& link, std::uint8_t type, std::span<const std::byte> payload);
  void ended(Link& link);
  void lost(Link& link, Loss loss);
  void close(Link& link);
  void tick();
  void look_after(Link& link, std::uint64_t now, bool was_away);
  void beat();
  Activity own_activity() const;
  void tell_failure();
  void farewell_locked();
  void send(Link& link, Frame type, std::span<const std::byte> payload);
  void fail(const Status& failure, int from) noexcept;
  void flood();
  Error error_of(const Member& member, const Activity& activity, const Loss& loss) const;
  std::optional<Error> mismatch_with(const Member& member, const Activity& activity, const std::string& since) const;
  void warn_of_mismatch() const;

  // control_survey.cpp: questions and answers.
  void ask(std::uint64_t id, int target, bool everybody);
  void take_query(int from, Frame type, std::span<const std::byte> payload);
  void take_reply(int from, std::span<const std::byte> payload);
  void route_query(Frame type, std::uint64_t id, int origin, int target, int ttl, int from);
  void reply(Link* next, std::uint64_t id, int origin, const PeerReport& report, int ttl);
  void answered(std::uint64_t id, const PeerReport& report);
  Link* towards(int target, int from);
  int first_ttl() const;

  // control_gather.cpp: the exchange.
  Status gather_in_turn(std::unique_lock<std::mutex>& lock, std::span<const std::byte> mine, const WaitLimits& wait_limits,
                        const Purpose& purpose, std::vector<std::vector<std::byte>>& all);
  Result<std::vector<std::vector<std::byte>>> gather_rounds(std::unique_lock<std::mutex>& lock,
                                                            std::span<const std::byte> mine, const WaitLimits& wait_limits,
                                                            const Purpose& purpose);
  Status await_round(std::unique_lock<std::mutex>& lock, int peer, std::pair<std::uint64_t, std::uint32_t> round,
                     const WaitLimits& wait_limits, const Purpose& purpose);
  Error gather_timeout(std::unique_lock<std::mutex>& lock, int peer, const WaitLimits& wait_limits, const Purpose& purpose);
  Error gather_mismatch(std::unique_lock<std::mutex>& lock, int peer, const WaitLimits& wait_limits,
                        const Purpose& purpose);

  Poller poller_;
  WakeUp wake_;
  std::thread watcher_;
  std::map<int, Link> links_;
  bool leaving_ = false;
  bool stopping_ = false;
  bool left_ = false;
  bool flood_due_ = false;  ///< the first error is not told to everybody yet
  int flood_from_ = -1;     ///< who told it to this rank
  std::uint64_t next_beat_ns_ = 0;
  std::uint64_t last_tick_ns_ = 0;

  OnFailure callback_;
  bool callback_due_ = false;
  std::mutex calling_;  // held while the callback runs, so that its removal can wait for that

  std::atomic<std::uint64_t> next_question_{1};  ///< counted without the lock
  std::map<std::uint64_t, std::pair<Survey*, std::size_t>> questions_;

  bool gathering_ = false;
  std::uint64_t gathers_ = 0;  // exchanges that this rank has begun
  /// What came for a round of an exchange, and what its sender had called by then.
  struct Round {
    std::uint64_t history = 0;
    std::vector<std::byte> blobs;
  };
  std::map<std::pair<std::uint64_t, std::uint32_t>, Round> rounds_;
};

}  // namespace tutti
