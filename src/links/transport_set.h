// The transports of one communicator: which of them this rank has, how it reaches each peer, and the links opened so far.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "src/base/link_shape.h"
#include "src/base/poll_hook.h"
#include "src/base/settings.h"
#include "src/base/status.h"
#include "src/control/wait_limits.h"
#include "src/executors/host/host_link.h"
#include "src/links/waiter.h"
#include "src/schedule/ir.h"
#include "src/selection/tuning.h"
#include "topology/view.h"

namespace tutti {

/// Endpoints of a class are used by one thread at a time, so collectives and point to point never wait for each other.
enum class TrafficClass : std::uint32_t { collective = 0, point_to_point = 1 };
inline constexpr std::size_t traffic_classes = 2;

static_assert(link_slots == most_credit);
/// Longest that an operation which failed waits, before its call returns, for peers that write into memory which it granted
/// them: they end with the sweep that they are in, well below a millisecond, unless they are stopped.
inline constexpr std::uint64_t longest_quiesce_ns = 1'000'000'000;

/// Longest that a creation waits for paths to prove themselves.
inline constexpr std::uint64_t longest_proof_ns = 3'000'000'000;

/// A rank's endpoints of every viable transport, and what they say of each peer.
class Transports {
 public:
  /// Opens an endpoint per class of each transport that settings allow and this machine has. key: the communicator's;
  /// copied. Errors: TUTTI_INVALID_ARGUMENT (an unknown transport: its name, and those there are), TUTTI_UNSUPPORTED (none
  /// of them viable, each with its reason), TUTTI_SYSTEM_ERROR (likewise, where the system refused one what it needs).
  /// name: the communicator's, for the log.
  static Result<std::unique_ptr<Transports>> open(const Settings& settings, std::span<const unsigned char, 32> key,
                                                  int rank, int ranks, const std::string& name = "world");
  ~Transports();
  Transports(const Transports&) = delete;
  Transports& operator=(const Transports&) = delete;

  /// What peers must know of this rank, as bytes for the rendezvous.
  std::vector<std::byte> describe() const;
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

  /// "shm", "tcp" or "shm+tcp": what carries this communicator. "none" for one rank.
  const std::string& names() const { return names_; }
  /// By rank, the transport that carries what goes to it; NULL for this rank. For the log; once settled.
  std::vector<const char*> carriers() const;

  std::span<OpenEndpoint> endpoints(TrafficClass traffic);
  /// The link to or from a peer: opened on first use, not yet necessarily open (see ready). Owned here.
  Result<HostLink*> link(TrafficClass traffic, int peer, std::uint32_t channel, bool sends);
  /// OK once it is open; NOT_YET; BROKEN.
  tutti_link_result ready(HostLink& link);
  /// Quiesces the links of the class by which peers reach into this process's memory, or it into theirs; they are only to
  /// be closed after that. False: a peer writes at this moment, and ends soon.
  bool quiesce(TrafficClass traffic);
  /// Quiesces until no peer writes, at most for longest_quiesce_ns. hook: asked each millisecond, as in every wait, but
  /// what it says ends nothing: the caller's memory goes before its haste. Throws nothing.
  void await_quiescence(TrafficClass traffic, const PollHook& hook);
  /// Closes every link of the class.
  void close_links(TrafficClass traffic);
  /// Whether a peer was writing into this process's memory, as far as could be seen, when its links were closed.
  bool may_write(int peer) const { return writers_[static_cast<std::size_t>(peer)]; }

 private:
  struct PerTransport {
    const tutti_transport* transport;
    std::array<std::vector<std::byte>, traffic_classes> own;                 ///< descriptors
    std::array<std::vector<std::vector<std::byte>>, traffic_classes> peers;  ///< per rank; empty: it lacks the transport
  };
  struct Common {
    std::string name;
    int mine;  ///< index into transports_, -1 where not had here
  };
  Transports(std::span<const unsigned char, 32> key, int rank, int ranks, const std::string& name);
  void set_options(const Settings& settings);
  Status open_endpoints(const tutti_transport& transport, const Settings& settings);

  void read_descriptions(std::span<const std::vector<std::byte>> descriptions);
  bool reaches(std::size_t mine, int peer, tutti_reach& there);
  /// By transport of ours and peer: how it is reached, nothing where it is not.
  using Paths = std::vector<std::vector<std::optional<tutti_reach>>>;
  Status prove(Paths& paths, const WaitLimits& wait_limits);
  void note_obstacle(std::size_t mine, int peer, std::string_view why);
  tutti_link_result probe(std::size_t mine, int peer, bool late, const Deadline& deadline);
  Status unconnected(std::size_t a, std::size_t b) const;
  Status not_opened(const HostLink& link, bool sends, tutti_status status, std::string_view why) const;
  int index_of(const std::string& name) const;
  std::string names_of(const std::vector<bool>& used) const;  ///< used: by index into common_
  void log_open(const HostLink& link);
  void log_stats(const HostLink& link) const;

  std::array<unsigned char, 32> key_;
  std::vector<std::string> option_values_;
  std::vector<tutti_option> options_;  ///< of every endpoint; values in option_values_
  int rank_;
  int ranks_;
  std::string label_;  ///< how lines of the log begin
  std::string names_ = "none";
  std::string refusal_;                 ///< what this rank's process lacks for its transports, and a remedy; or nothing
  std::vector<std::string> offered_;    ///< by rank: the names of the transports that it opened
  std::vector<std::string> refusals_;   ///< the same of all ranks
  std::vector<std::string> obstacles_;  ///< by peer: why each transport that both have does not reach it from here
  std::string obstacle_remedy_;         ///< of the first that has one
  std::vector<PerTransport> transports_;
  std::array<std::vector<OpenEndpoint>, traffic_classes> endpoints_;  ///< in the order of transports_
  std::vector<Common> common_;                                        ///< what any rank has, which all count alike
  std::vector<int> chosen_;                                           ///< per peer: index into transports_, -1 itself
  std::vector<bool> writers_;                                         ///< per peer: see may_write
  std::array<std::unordered_map<std::uint64_t, std::unique_ptr<HostLink>>, traffic_classes> links_;
};

}  // namespace tutti
