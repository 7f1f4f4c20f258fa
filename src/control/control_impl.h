// Inside the control plane: its state and the watcher. Included by control*.cpp only.
#pragma once

#include <array>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "src/control/control.h"
#include "src/control/mesh.h"
#include "src/control/mismatch.h"

namespace tutti {

class ControlPlane::Impl final : public Mesh::Plane {
 public:
  using Frame = Mesh::Frame;
  enum class LinkState { kOpen, kLeft, kDead };

  /// One neighbour.
  struct Link {
    Mesh::Connection* connection = nullptr;  ///< null: there is none, or none yet
    int in_mesh = -1;                        ///< its rank there
    Member about;
    LinkState state = LinkState::kOpen;
    std::optional<Activity> last;          ///< as its last heartbeat, or its goodbye, told
    std::unique_ptr<ActivityBoard> board;  ///< its page, where it is on this machine
    const char* how = nullptr;             ///< it is dead: what befell it; null: it was silent
    std::uint64_t made_ns = 0;             ///< when this plane made it, or got its connection
    bool has_spoken = false;               ///< a frame of this plane has come from there
    std::uint64_t told_ns = 0;             ///< when that is to be told as this rank sees it; 0: it has been
    bool others_first = false;             ///< and others were given time to tell it before

    bool open() const { return state == LinkState::kOpen; }
    /// What is known of its rank without asking.
    std::optional<Activity> known() const {
      if (!board || !board->valid()) return last;
      Activity latest = board->read();
      if (last) latest.exchanges = last->exchanges;  // which the board does not tell
      return latest;
    }
    Activity activity() const { return known().value_or(Activity{}); }
    PeerReport report(PeerReport::State how_it_is) const {
      const auto known_of_it = known();
      return {about.rank, how_it_is, known_of_it.has_value(), known_of_it.value_or(Activity{})};
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

  /// A plane over `mesh`, in which its ranks are `in_mesh`; see ControlPlane.
  Impl(std::shared_ptr<Mesh> mesh, const Options& options, std::vector<int> in_mesh, std::uint64_t context,
       std::unique_ptr<ActivityBoard> board);
  /// From now on it has its frames. Errors: TUTTI_INVALID_USAGE where the mesh ends.
  Status start();
  bool in_child() const;
  Status child_error() const;

  void add_link(UniqueFd fd, const Member& about);
  void set_members(std::vector<Member> members);
  void report(const Status& failure) noexcept;
  void leave() noexcept;
  std::vector<int> connected() const;
  Status await_connections(std::span<const int> ranks, const WaitLimits& wait_limits);
  Status left_early(int rank) const;
  /// Before `start`: until set_members, what goes to neighbours without a connection goes by `whole`, in which they are
  /// `members`, by rank.
  void route_by(Impl& whole, std::span<const int> members);

  // For the mesh.
  void take(int from, Frame type, std::span<const std::byte> payload) override;
  void ended(int rank, const char* how) noexcept override;
  std::uint64_t look(std::uint64_t now) override;
  void beat() override;
  void farewell() override;
  void starved(const Status& status) noexcept override { fail(status, -1); }
  std::uint64_t idle_timeout_ns() const override { return options_.idle_timeout_ns; }

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

  const std::shared_ptr<Mesh> mesh_;
  const Options options_;
  const std::vector<int> in_mesh_;  ///< by rank
  const std::uint64_t context_;
  const int pid_;
  const std::unique_ptr<ActivityBoard> board_;
  std::atomic<bool> failed_{false};
  std::mutex& mutex_;  ///< the mesh's; guards everything below, except where said
  std::condition_variable& changed_;
  std::string name_;  ///< the communicator's, as sentences have it
  Status first_error_;
  std::vector<Member> members_;

 private:
  // control_links.cpp: what befalls neighbours, and what becomes of it.
  Link* link_of(int in_mesh);
  void route(int origin, int target, int ttl, std::uint64_t context, Frame type, std::span<const std::byte> payload);
  void take_routed(std::span<const std::byte> payload);
  void lost(Link& link, const char* how) noexcept;
  std::uint64_t look_for_end(Link& link, std::uint64_t now);
  std::uint64_t tell_loss(int rank, Link& link, std::uint64_t now);
  std::uint64_t silence_ends_ns(const Link& link) const;
  Activity own_activity() const;
  std::string what_befell(const Link& link) const;
  void send(Link& link, Frame type, std::span<const std::byte> payload);
  void fail(const Status& failure, int from) noexcept;
  void flood();
  Error error_of(const Member& member, const Activity& activity, const std::string& what, const char* remedy) const;
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
  bool has_left_routes(int rank) const;
  Status await_round(std::unique_lock<std::mutex>& lock, int peer, std::pair<std::uint64_t, std::uint32_t> round,
                     const WaitLimits& wait_limits, const Purpose& purpose);
  Error gather_timeout(std::unique_lock<std::mutex>& lock, int peer, const WaitLimits& wait_limits, const Purpose& purpose);
  Error gather_mismatch(std::unique_lock<std::mutex>& lock, int peer, const WaitLimits& wait_limits,
                        const Purpose& purpose);

  std::map<int, Link> links_;
  Impl* routes_ = nullptr;      ///< see route_by
  std::vector<int> in_routes_;  ///< by rank: its rank there
  bool is_set_up_ = false;      ///< set_members: each neighbour has, or had, a connection
  bool leaving_ = false;
  bool left_ = false;
  bool flood_due_ = false;  ///< the first error is not told to everybody yet
  int flood_from_ = -1;     ///< who told it to this rank
  /// What this rank's last heartbeat told: see Activity. None yet: the first one says that this plane is there.
  std::optional<std::array<std::uint64_t, 3>> told_;

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
