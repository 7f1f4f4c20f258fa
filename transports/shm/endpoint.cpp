#include "transports/shm/endpoint.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "src/base/clock.h"
#include "src/base/descriptor_limit.h"
#include "src/base/socket.h"
#include "src/base/transport_helpers.h"
#include "transports/shm/link.h"

namespace tutti::shm {
namespace {

/// A descriptor that somebody else closes.
SharedFd borrowed(int fd) {
  return std::shared_ptr<UniqueFd>(new UniqueFd(fd), [](UniqueFd* d) {
    static_cast<void>(d->release());
    delete d;
  });
}

// Tags of events; below them a peer's, which is its rank.
constexpr std::uint64_t kLocal = UINT64_MAX;
constexpr std::uint64_t kDoorbell = UINT64_MAX - 1;

/// So many are taken in most programs after an endpoint was opened. With one peer a connection and its doorbell; while one
/// is opened its memory's; and what other transports, and the other class of traffic, open for themselves. Rings and trees
/// have no more peers than powers of two reach in both directions.
std::uint64_t descriptors_of_peers(int ranks) {
  const auto others = static_cast<unsigned>(ranks - 1);
  return 2 * std::min<std::uint64_t>(others, 2 * static_cast<std::uint64_t>(std::bit_width(others))) + 16;
}

}  // namespace

Endpoint::Endpoint(const tutti_endpoint_config& config)
    : rank_(config.rank),
      ranks_(config.ranks),
      traffic_class_(config.endpoint_class),
      connect_timeout_ns_(config.connect_timeout_ns),
      core_cache_bytes_(option_number(config, "core_cache_bytes", kUsualCacheBytes)),
      log_(config.log),
      peers_(static_cast<std::size_t>(config.ranks)) {}

Result<std::unique_ptr<Endpoint>> Endpoint::open(const tutti_endpoint_config& config) {
  if (config.key == nullptr || config.ranks < 1 || config.rank < 0 || config.rank >= config.ranks) {
    return Status(TUTTI_INVALID_ARGUMENT, "shm cannot open an endpoint for rank " + std::to_string(config.rank) + " of " +
                                              std::to_string(config.ranks) +
                                              (config.key == nullptr ? " without a key" : ""));
  }
  raise_descriptor_limit();
  std::unique_ptr<Endpoint> endpoint(new Endpoint(config));
  Status status = endpoint->set_up(config.key);
  if (!status.ok()) return status;
  return endpoint;
}

Status Endpoint::set_up(const unsigned char* key) {
  near::LocalEndpointConfig config;
  config.service = kService;
  config.purpose = "tutti shm 2";
  config.name = "shm";
  config.rank = rank_;
  config.ranks = ranks_;
  config.endpoint_class = traffic_class_;
  std::memcpy(config.key.data(), key, config.key.size());
  config.log = [this](int level, const std::string& text) { log(level, text); };
  Result<std::unique_ptr<near::LocalEndpoint>> local = near::LocalEndpoint::open(std::move(config));
  if (!local.ok()) return local.status();
  local_ = std::move(*local);

  Result<UniqueFd> page = create_memory("tutti-endpoint", kPage);
  if (!page.ok()) return page.status();
  page_file_ = std::make_shared<const UniqueFd>(std::move(*page));
  Result<Mapping> mapping = map_memory(page_file_->get(), 0, kPage, true);
  if (!mapping.ok()) return mapping.status();
  page_mapping_ = std::move(*mapping);
  page_ = static_cast<EndpointPage*>(page_mapping_.data());

  doorbell_ = std::make_shared<const UniqueFd>(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!*doorbell_ || !poller_) return system_error("cannot create an event descriptor", errno);
  // Each ring makes one event, and nothing needs to be read back.
  if (!poller_.watch_edges(doorbell_->get(), kDoorbell) || !poller_.watch(local_->fd(), kLocal, true, false)) {
    return system_error("cannot watch a socket", errno);
  }
  return check_descriptors_left(*doorbell_, descriptors_of_peers(ranks_));
}

// Links first: their memory is unmapped before the sockets close, so that a peer who sees the end knows that nobody here
// writes its memory any more.
Endpoint::~Endpoint() {
  links_.clear();
  peers_.clear();
}

Peer& Endpoint::peer(int rank) {
  std::unique_ptr<Peer>& peer = peers_[static_cast<std::size_t>(rank)];
  if (!peer) peer = std::make_unique<Peer>(*this, rank);
  return *peer;
}

void Endpoint::arm(bool sleeping) {
  idle_calls_ = kPatience;
  // Sequentially consistent, so that on our side at least the store is done before the caller looks at its words for a last
  // time. The peer's half of this agreement is missing on purpose: see Link::wake.
  const bool asked = shared(page_->sleeping).exchange(sleeping ? 1 : 0, std::memory_order_seq_cst) != 0;
  if (sleeping && asked_ && !asked) near::ring_doorbell(*doorbell_);
  asked_ = sleeping;
}

bool Endpoint::look() {
  idle_calls_ = 0;
  // Relaxed: cleared before looking, so that what is sent from now on sets it again.
  shared(page_->attention).store(0, std::memory_order_relaxed);
  bool moved = false;
  if (local_->next_ns() != UINT64_MAX && now_ns() >= local_->next_ns()) moved = let_in();
  while (take_events(moved)) {
  }
  for (auto next = connecting_.begin(); next != connecting_.end();) {
    Peer& peer = **next++;  // it may leave the list
    moved = peer.advance() || moved;
  }
  return expire() || moved;
}

bool Endpoint::take_events(bool& moved) {
  const auto events = poller_.wait(0);
  for (const Poller::Event& event : events) moved = dispatch(event.tag) || moved;
  return events.size() == Poller::kMostEvents;
}

bool Endpoint::dispatch(std::uint64_t tag) {
  if (tag == kDoorbell) return true;
  return tag == kLocal ? let_in() : peer(static_cast<int>(tag)).advance();
}

bool Endpoint::let_in() {
  bool moved = false;
  for (near::LocalArrival& arrival : local_->accept()) {
    const bool adopted = peer(arrival.rank).adopt(std::move(arrival.socket));
    if (!adopted) log(2, "shm: a second connection of rank " + std::to_string(arrival.rank) + " was refused");
    moved = moved || adopted;
  }
  const bool is_short = local_->shut_since_ns() != UINT64_MAX;
  if (is_short) keep_out();
  short_ = is_short;
  return moved;
}

// Links that wait for peers who cannot be let in would do so in vain, and be told of a peer that is late.
void Endpoint::keep_out() {
  if (!short_) log(2, std::string("shm: ") + kKeepsPeersOut);
  if (now_ns() < local_->shut_since_ns() + kShortNs) return;
  for (auto next = waiting_.begin(); next != waiting_.end();) {
    ShmLink& link = **next++;                                        // it may leave the list
    if (link.peer().rank() > rank_) link.break_off(kKeepsPeersOut);  // those call here
  }
}

bool Endpoint::expire() {
  if (waiting_.empty()) return false;
  const std::uint64_t now = now_ns();
  bool expired = false;
  for (auto next = waiting_.begin(); next != waiting_.end();) {
    ShmLink& link = **next++;  // it may leave the list
    expired = link.expire(now) || expired;
  }
  return expired;
}

void Endpoint::link_waiting(ShmLink& link) { waiting_.push_back(&link); }
void Endpoint::link_met(ShmLink& link) { waiting_.remove(&link); }

void Endpoint::connecting(Peer& peer, bool yes) {
  connecting_.remove(&peer);
  if (yes) connecting_.push_back(&peer);
}

void Endpoint::keep(std::unique_ptr<ShmLink> link) {
  ShmLink* const key = link.get();
  links_.emplace(key, std::move(link));
}

void Endpoint::free(ShmLink& link) { links_.erase(&link); }

Packet Endpoint::hello() const {
  Packet packet;
  packet.message.verb = Verb::kHello;
  packet.message.rank = rank_;
  packet.message.pid = static_cast<std::uint32_t>(::getpid());
  packet.descriptors = {page_file_, doorbell_};
  return packet;
}

void Endpoint::log(int level, const std::string& text) const {
  if (log_ != nullptr) log_(level, text.c_str());
}

Result<OwnRegion*> Endpoint::register_memory(const tutti_memory& memory) {
  if (memory.kind != TUTTI_MEMORY_HOST || memory.fd_kind != TUTTI_FD_MEMFD || memory.base == nullptr || memory.bytes == 0 ||
      memory.fd < 0) {
    return Status(TUTTI_INVALID_ARGUMENT, "shm can only register memory that lies in a file (a memfd)",
                  "Allocate it with tutti_memory_alloc");
  }
  // Maps it once to find out now, not at a peer, whether the file is as long as was said, and sealed.
  Result<Mapping> mapped = map_memory(memory.fd, memory.fd_offset, memory.bytes, false);
  if (!mapped.ok()) return mapped.status();
  OwnRegion region;
  region.id = ++region_ids_;
  region.base = static_cast<unsigned char*>(memory.base);
  region.bytes = memory.bytes;
  region.file_offset = memory.fd_offset;
  region.file = borrowed(memory.fd);
  region.told.resize(static_cast<std::size_t>(ranks_));
  regions_.push_back(std::move(region));
  return &regions_.back();
}

void Endpoint::unregister_memory(OwnRegion& region) {
  for (int rank = 0; rank < ranks_; ++rank) {
    if (region.told[static_cast<std::size_t>(rank)] != Told::kAnnounced) continue;
    // What was not sent yet must not be: the descriptor may be another file's soon.
    if (peer(rank).unpost_region(region.id)) continue;
    Packet packet;
    packet.message.verb = Verb::kForgetRegion;
    packet.message.a = region.id;
    peer(rank).post(std::move(packet));
  }
  regions_.remove_if([&](const OwnRegion& r) { return &r == &region; });
}

bool Endpoint::announce(OwnRegion& region, Peer& to) {
  Told& told = region.told[static_cast<std::size_t>(to.rank())];
  if (told == Told::kNothing) {
    Packet packet;
    packet.message.verb = Verb::kRegion;
    packet.message.a = region.id;
    packet.message.b = region.bytes;
    packet.message.c = region.file_offset;
    packet.descriptors[0] = region.file;
    to.post(std::move(packet));
    told = Told::kAnnounced;
  }
  return to.drained();
}

void Endpoint::region_refused(std::uint64_t id, int rank) {
  for (OwnRegion& region : regions_) {
    if (region.id == id) region.told[static_cast<std::size_t>(rank)] = Told::kRefused;
  }
}

const OwnRegion* Endpoint::own_region(std::uint64_t id) const {
  const auto found = std::find_if(regions_.begin(), regions_.end(), [&](const OwnRegion& r) { return r.id == id; });
  return found != regions_.end() ? &*found : nullptr;
}

}  // namespace tutti::shm
