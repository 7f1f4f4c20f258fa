// The transports of one communicator: how it reaches each peer, and the links opened so far. The endpoints are those of an
// EndpointSet, which it shares with communicators that are split off from it. Each has channels of its own.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "src/base/link_shape.h"
#include "src/base/poll_hook.h"
#include "src/base/settings.h"
#include "src/base/status.h"
#include "src/control/wait_limits.h"
#include "src/executors/host/host_link.h"
#include "src/links/endpoint_set.h"
#include "src/schedule/ir.h"
#include "src/selection/tuning.h"
#include "topology/view.h"

namespace tutti {

static_assert(link_slots == most_credit);
/// Longest that an operation which failed waits, before its call returns, for peers that write into memory which it granted
/// them: they end with the sweep that they are in, well below a millisecond, unless they are stopped.
inline constexpr std::uint64_t longest_quiesce_ns = 1'000'000'000;

/// Longest that a communicator which leaves waits until what it has sent is out of this process, where its endpoints stay.
inline constexpr std::uint64_t longest_flush_ns = 500'000'000;

/// Longest that a creation waits for paths to prove themselves.
inline constexpr std::uint64_t longest_proof_ns = 3'000'000'000;

/// What one rank's endpoints of every viable transport say of each peer, and the links to those. Used by one thread at a
/// time for each class of traffic, within a turn of its group (EndpointTurn, EndpointVisit) where that is said.
class Transports {
 public:
  /// Opens an endpoint per class of each transport that settings allow and this machine has. key: the communicator's;
  /// copied. Errors: TUTTI_INVALID_ARGUMENT (an unknown transport: its name, and those there are), TUTTI_UNSUPPORTED (none
  /// of them viable, each with its reason), TUTTI_SYSTEM_ERROR (likewise, where the system refused one what it needs).
  /// name: the communicator's, for the log.
  static Result<std::unique_ptr<Transports>> open(const Settings& settings, std::span<const unsigned char, 32> key,
                                                  int rank, int ranks, const std::string& name = "world");
  /// Of a communicator that is split off from `whole`'s, over the same endpoints. members: its ranks, in their order, as
  /// ranks of whole's; this rank is one of them. context: the first number of its channels, random, and the same on all
  /// its ranks. name: as in open. No I/O. `whole` has shared its endpoints before, and either may end first.
  static std::unique_ptr<Transports> part_of(const Transports& whole, std::span<const int> members, std::uint64_t context,
                                             const std::string& name);
  /// Closes the links, in turns of its own; the endpoints with whoever uses them last.
  ~Transports();
  Transports(const Transports&) = delete;
  Transports& operator=(const Transports&) = delete;

  /// Whether a part with these settings may use these endpoints. Else it opens its own.
  bool may_share_with(const Settings& settings) const { return set_->is_opened_by(settings); }
  /// Before the first part: from now on turns exclude each other. Nobody is within one, of either class, or knows that it
  /// goes on without that: see TransferEngine::settle.
  void share();

  /// What peers must know of this rank, as bytes for the rendezvous.
  std::vector<std::byte> describe() const { return set_->describe(); }
  /// How this rank reaches each peer, as bytes to be gathered, from all ranks' descriptions (rank order).
  /// tuning: what it says of a transport counts more in view.links than what that says itself. Transports are chosen by
  /// their own numbers, since one that was measured would compete with others' guesses. Waits up to longest_proof_ns where
  /// a transport wants its paths proved (tutti_transport.probe). Errors: TUTTI_ABORTED, as wait_limits say.
  Result<std::vector<std::byte>> reach(std::span<const std::vector<std::byte>> descriptions, const View& view,
                                       const Tuning& tuning, const WaitLimits& wait_limits);
  /// Settles which transport each pair uses, from all ranks' reaches (rank order): the quickest for 64 KiB that reaches
  /// in both directions, by the lower rank's numbers. Fills view.links with the dearest pair of each class (equal on
  /// all ranks). Errors: TUTTI_UNSUPPORTED naming a pair that nothing connects; TUTTI_SYSTEM_ERROR where one of the two
  /// lacks a transport because its system refused it.
  Status settle(std::span<const std::vector<std::byte>> reaches, View& view);

  /// How this rank reaches each rank, as bytes to be gathered, for parts of this communicator. Once settled.
  std::vector<std::byte> describe_carriers() const;
  /// As settle, of a part: from its members' describe_carriers() in whole, in the order of its own ranks. Errors:
  /// TUTTI_INTERNAL_ERROR where they are not that.
  Status settle_part(std::span<const std::vector<std::byte>> rows, View& view);

  /// "shm", "tcp" or "shm+tcp": what carries this communicator. "none" for one rank.
  const std::string& names() const { return names_; }
  /// By rank, the transport that carries what goes to it; NULL for this rank. For the log; once settled.
  std::vector<const char*> carriers() const;

  EndpointGroup& endpoints(TrafficClass traffic) { return set_->group(traffic); }
  /// The link to or from a peer: opened on first use, not yet necessarily open (see ready). channel: counted from this
  /// communicator's first. Owned here. Within a turn.
  Result<HostLink*> link(TrafficClass traffic, int peer, std::uint32_t channel, bool sends);
  /// OK once it is open; NOT_YET; BROKEN. Within a turn.
  tutti_link_result ready(HostLink& link);
  /// Why a link is broken, as its transport says, with this communicator's ranks. Within a turn.
  std::string why_broken(const HostLink& link) const;
  /// What a transport said, likewise. Needs no turn.
  std::string in_own_ranks(std::string_view said) const;
  /// Within a turn. Quiesces the links of the class by which peers reach into this process's memory, or it into theirs;
  /// they are only to be closed after that. False: a peer writes at this moment, and ends soon.
  bool quiesce(TrafficClass traffic);
  /// Quiesces until no peer writes, at most for longest_quiesce_ns. hook: asked each millisecond, as in every wait, but
  /// what it says ends nothing: the caller's memory goes before its haste. Throws nothing. Takes turns of its own.
  void await_quiescence(TrafficClass traffic, const PollHook& hook);
  /// Waits until what was committed has left this process, at most for longest_flush_ns; where the endpoints close with
  /// this, they see to that. Throws nothing. Takes turns of its own.
  void flush(TrafficClass traffic);
  /// Closes every link of the class. Takes turns of its own.
  void close_links(TrafficClass traffic);
  /// Bytes that links have for messages which come, by their slots. Thread safe. Relaxed: a figure for reports.
  std::uint64_t room_bytes() const { return room_bytes_.load(std::memory_order_relaxed); }
  /// Whether a peer was writing into this process's memory, as far as could be seen, when its links were closed.
  bool may_write(int peer) const { return writers_[static_cast<std::size_t>(peer)]; }

 private:
  /// By what one rank reaches another, and at which cost, to the cost model.
  struct Carrier {
    int common = -1;  ///< number of the transport on all ranks; -1: none
    LinkEstimate told = {};
    bool reads_peer = false;  ///< TUTTI_READS_PEER
  };
  Transports(std::shared_ptr<EndpointSet> set, int rank, std::vector<int> members, const std::string& name);
  bool reaches(std::size_t mine, int peer, tutti_reach& there);
  /// By transport of ours and peer: how it is reached, nothing where it is not.
  using Paths = std::vector<std::vector<std::optional<tutti_reach>>>;
  Status prove(Paths& paths, const WaitLimits& wait_limits);
  void note_obstacle(std::size_t mine, int peer, std::string_view why);
  tutti_link_result probe(std::size_t mine, int peer, bool late, const Deadline& deadline);
  Status unconnected(std::size_t a, std::size_t b) const;
  void hear(TrafficClass traffic);
  template <typename Over>
  void await(TrafficClass traffic, std::uint64_t ns, const PollHook& hook, const Over& over);
  template <typename CarrierOf>
  void settle_on(const CarrierOf& carrier_of, View& view);
  Status not_opened(const HostLink& link, bool sends, tutti_status status, std::string_view why) const;
  std::string names_of(const std::vector<bool>& used) const;  ///< used: by number
  void log_open(const HostLink& link);
  void log_stats(const HostLink& link) const;

  const std::shared_ptr<EndpointSet> set_;
  const int rank_;
  const std::vector<int> members_;  ///< by rank: its number in the set
  std::vector<int> in_whole_;       ///< by rank: its number in the communicator that this one was split off from
  std::uint64_t context_ = 0;       ///< the first of its channels
  std::string label_;               ///< how lines of the log begin
  std::string names_ = "none";
  std::vector<std::string> obstacles_;  ///< by peer: why each transport that both have does not reach it from here
  std::string obstacle_remedy_;         ///< of the first that has one
  std::vector<Carrier> carriers_;       ///< by peer
  std::vector<bool> writers_;           ///< per peer: see may_write
  std::array<std::unordered_map<std::uint64_t, std::unique_ptr<HostLink>>, traffic_classes> links_;
  std::atomic<std::uint64_t> room_bytes_{0};
};

}  // namespace tutti
