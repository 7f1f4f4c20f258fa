// One rank's end of the transport: where peers come in, the peers, the doorbell and the regions.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "include/tutti/transport.h"
#include "src/base/poller.h"
#include "src/base/status.h"
#include "src/base/unique_fd.h"
#include "transports/near/local_endpoint.h"
#include "transports/shm/layout.h"
#include "transports/shm/peer.h"
#include "transports/shm/region.h"

namespace tutti::shm {

class ShmLink;

/// Which descriptors are this transport's, in this version.
inline constexpr near::Service kService{'t', 'u', 't', 't', 'i', 's', 'h', '2'};
/// Begins the sentence of what the system refuses this process.
inline constexpr const char* kCannotShare = "this process cannot share memory: ";

/// Used by one thread at a time.
class Endpoint {
 public:
  static Result<std::unique_ptr<Endpoint>> open(const tutti_endpoint_config& config);
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  const near::LocalAddress& address() const { return local_->address(); }
  std::uint64_t connect_timeout_ns() const { return connect_timeout_ns_; }
  int event_fd() const { return poller_.fd(); }
  /// As in tutti_endpoint_config, or a guess.
  std::uint64_t core_cache_bytes() const { return core_cache_bytes_; }
  /// Links there are, of both directions.
  std::size_t links() const { return links_.size(); }

  bool progress() {
    // Data and credit need no progress at all: the words advance in shared memory. What needs it are sockets, and a peer
    // that has sent something says so in our page. Looking every time all the same costs a system call, so that is done
    // every kPatience-th time only (for new connections and deaths), or when we have just slept, or while something is
    // opening. Relaxed: the word is a hint; what it hints at is read through the kernel.
    const bool asked = shared(page_->attention).load(std::memory_order_relaxed) != 0;
    if (!asked && waiting_.empty() && ++idle_calls_ < kPatience) return false;
    return look();
  }
  /// Asks peers to ring, or no longer to. Asked again, it rings itself where somebody has rung since: that ring may have
  /// been heard by a look which found only a part of what is waited for.
  void arm(bool sleeping);

  /// Looks at the sockets now; true where something moved.
  bool look();

  /// The peer of that rank, created where needed.
  Peer& peer(int rank);

  /// The region belongs to the endpoint. The file stays the caller's, and open until the region is given up.
  Result<OwnRegion*> register_memory(const tutti_memory& memory);
  /// Tells the peers that know it, and frees it.
  void unregister_memory(OwnRegion& region);
  /// Tells `to` about the region once. False: not sent yet, try again later.
  bool announce(OwnRegion& region, Peer& to);
  /// The peer could not take the region of that id.
  void region_refused(std::uint64_t id, int rank);
  /// Null: it was given up.
  const OwnRegion* own_region(std::uint64_t id) const;

  // For peers and links.
  /// A link waits to meet its peer, and breaks where that cannot be reached for as long as the time to connect.
  void link_waiting(ShmLink& link);
  /// It has met it, or given up.
  void link_met(ShmLink& link);
  std::uint64_t next_serial() { return ++serial_; }
  Packet hello() const;
  /// A connection that has to be tried again belongs to no event: it is looked at whenever anything is.
  void connecting(Peer& peer, bool yes);
  const near::LocalEndpoint& local() const { return *local_; }
  Poller& poller() { return poller_; }
  /// By which the poller's events of that peer's connection come.
  static std::uint64_t tag_of_peer(int rank) { return static_cast<std::uint64_t>(rank); }
  /// Keeps a link until it is closed, or the endpoint is.
  void keep(std::unique_ptr<ShmLink> link);
  void free(ShmLink& link);
  void log(int level, const std::string& text) const;
  EndpointPage* page() const { return page_; }

 private:
  static constexpr std::uint32_t kPatience = 256;
  static constexpr std::uint64_t kUsualCacheBytes = 1 << 20;
  static constexpr std::uint64_t kShortNs = 1'000'000'000;

  explicit Endpoint(const tutti_endpoint_config& config);
  Status set_up(const unsigned char* key);
  bool take_events(bool& moved);
  bool dispatch(std::uint64_t tag);
  bool let_in();
  void keep_out();
  bool expire();

  const int rank_;
  const int ranks_;
  const std::uint32_t traffic_class_;
  const std::uint64_t connect_timeout_ns_;
  const std::uint64_t core_cache_bytes_;
  void (*const log_)(int, const char*);
  Poller poller_;
  std::unique_ptr<near::LocalEndpoint> local_;

  Mapping page_mapping_;
  EndpointPage* page_ = nullptr;
  SharedFd page_file_;
  SharedFd doorbell_;

  std::uint32_t idle_calls_ = 0;
  bool asked_ = false;  ///< to be woken, by the last `arm`
  bool short_ = false;  ///< nobody is let in, for want of descriptors, and that has been said
  std::vector<std::unique_ptr<Peer>> peers_;
  std::list<Peer*> connecting_;
  std::list<ShmLink*> waiting_;  ///< links whose peer has not answered yet
  std::unordered_map<ShmLink*, std::unique_ptr<ShmLink>> links_;
  std::list<OwnRegion> regions_;
  std::uint64_t region_ids_ = 0;
  std::uint64_t serial_ = 0;
};

}  // namespace tutti::shm
