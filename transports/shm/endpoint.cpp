#include "transports/shm/endpoint.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "src/base/clock.h"
#include "src/base/descriptor_limit.h"
#include "src/base/random.h"
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

// What an event is about, in the upper half of its tag; the lower half says which.
enum : std::uint64_t { kListener = 1, kDoorbell = 2, kPeer = 3, kStranger = 4 };
constexpr std::uint64_t tag(std::uint64_t what, std::uint64_t which) { return what << 32 | (which & UINT32_MAX); }

int control(int epoll, int operation, int fd, std::uint32_t events, std::uint64_t data) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = data;
  return ::epoll_ctl(epoll, operation, fd, &event);
}

/// What the handshake carries: who it is, and for which of a communicator's endpoints.
struct Introduction {
  std::int32_t rank;
  std::int32_t ranks;
  std::uint32_t traffic_class;
};

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
      peers_(static_cast<std::size_t>(config.ranks)) {
  std::memcpy(key_.data(), config.key, key_.size());
}

Result<std::unique_ptr<Endpoint>> Endpoint::open(const tutti_endpoint_config& config) {
  if (config.key == nullptr || config.ranks < 1 || config.rank < 0 || config.rank >= config.ranks) {
    return Status(TUTTI_INVALID_ARGUMENT, "shm cannot open an endpoint for rank " + std::to_string(config.rank) + " of " +
                                              std::to_string(config.ranks) +
                                              (config.key == nullptr ? " without a key" : ""));
  }
  std::unique_ptr<Endpoint> endpoint(new Endpoint(config));
  Status status = endpoint->set_up();
  if (!status.ok()) return status;
  return endpoint;
}

Status Endpoint::set_up() {
  raise_descriptor_limit();
  Result<EndpointAddress> identity = machine_identity();
  if (!identity.ok()) return identity.status();
  address_ = *identity;
  address_.rank = rank_;
  random_bytes(address_.name);

  Result<UniqueFd> page = create_memory("tutti-endpoint", kPage);
  if (!page.ok()) return page.status();
  page_file_ = std::make_shared<const UniqueFd>(std::move(*page));
  Result<Mapping> mapping = map_memory(page_file_->get(), 0, kPage, true);
  if (!mapping.ok()) return mapping.status();
  page_mapping_ = std::move(*mapping);
  page_ = static_cast<EndpointPage*>(page_mapping_.data());

  doorbell_ = std::make_shared<const UniqueFd>(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  if (!*doorbell_ || !epoll_) return system_error("cannot create an event descriptor", errno);
  Result<UniqueFd> listener = listen_at(address_.name);
  if (!listener.ok()) return listener.status();
  listener_ = std::move(*listener);
  // Edge-triggered: each ring makes one event, and nothing needs to be read back.
  if (control(epoll_.get(), EPOLL_CTL_ADD, doorbell_->get(), EPOLLIN | EPOLLET, tag(kDoorbell, 0)) != 0 ||
      control(epoll_.get(), EPOLL_CTL_ADD, listener_.get(), EPOLLIN, tag(kListener, 0)) != 0) {
    return system_error("cannot watch a socket", errno);
  }
  return check_descriptors_left(listener_, descriptors_of_peers(ranks_));
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
  if (sleeping && asked_ && !asked) ring_doorbell(*doorbell_);
  asked_ = sleeping;
}

bool Endpoint::look() {
  idle_calls_ = 0;
  // Relaxed: cleared before looking, so that what is sent from now on sets it again.
  shared(page_->attention).store(0, std::memory_order_relaxed);
  bool moved = false;
  if (paused_until_ns_ != 0 && now_ns() >= paused_until_ns_) resume();
  while (take_events(moved)) {
  }
  for (auto next = connecting_.begin(); next != connecting_.end();) {
    Peer& peer = **next++;  // it may leave the list
    moved = peer.advance() || moved;
  }
  return expire() || moved;
}

bool Endpoint::take_events(bool& moved) {
  std::array<epoll_event, 64> events;
  const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < count; ++i) moved = dispatch(events[static_cast<std::size_t>(i)].data.u64) || moved;
  return count == static_cast<int>(events.size());
}

bool Endpoint::dispatch(std::uint64_t tag) {
  const std::uint64_t which = tag & UINT32_MAX;
  switch (tag >> 32) {
    case kListener:
      return accept_some();
    case kPeer:
      return peer(static_cast<int>(which)).advance();
    case kStranger: {
      const auto found =
          std::find_if(strangers_.begin(), strangers_.end(), [&](const Stranger& s) { return s.id == which; });
      return found != strangers_.end() && advance_stranger(found);
    }
    default:
      return true;  // the doorbell
  }
}

bool Endpoint::accept_some() {
  bool moved = false;
  std::size_t before = strangers_.size();  // who comes in now makes no room for the next
  for (int i = 0; i < kAcceptAtOnce; ++i) {
    UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket && keeps_out(listener_.get(), errno)) {
      if (before == 0) return pause(), moved;
      strangers_.pop_front();
      --before;
      continue;
    }
    if (!socket) return moved;
    moved = true;
    short_since_ns_ = 0;
    // Those who have been silent for longest make room: a rank that is dropped so calls again.
    if (strangers_.size() >= kMostStrangers) strangers_.pop_front();
    stranger_ids_ = (stranger_ids_ + 1) & UINT32_MAX;
    const int fd = socket.get();
    strangers_.push_back({stranger_ids_, std::move(socket), handshake(Handshake::Role::kAcceptor), now_ns() + kStrangerNs});
    control(epoll_.get(), EPOLL_CTL_ADD, fd, EPOLLIN, tag(kStranger, stranger_ids_));
    advance_stranger(std::prev(strangers_.end()));
  }
  return moved;
}

// Nobody can be let in: who stands at the door would end every nap at once until that changes. Where it does not, links
// that wait to meet their peers would do so in vain, and be told of a peer that is late.
void Endpoint::pause() {
  control(epoll_.get(), EPOLL_CTL_MOD, listener_.get(), 0, tag(kListener, 0));
  const std::uint64_t now = now_ns();
  paused_until_ns_ = now + kPauseNs;
  if (short_since_ns_ == 0) {
    short_since_ns_ = now;
    log(2, std::string("shm: ") + kKeepsPeersOut);
  }
  if (now - short_since_ns_ < kShortNs) return;
  for (auto next = waiting_.begin(); next != waiting_.end();) {
    ShmLink& link = **next++;                                        // it may leave the list
    if (link.peer().rank() > rank_) link.break_off(kKeepsPeersOut);  // those call here
  }
}

void Endpoint::resume() {
  paused_until_ns_ = 0;
  control(epoll_.get(), EPOLL_CTL_MOD, listener_.get(), EPOLLIN, tag(kListener, 0));
}

bool Endpoint::advance_stranger(std::list<Stranger>::iterator stranger) {
  const bool moved = tutti::advance(stranger->handshake, stranger->socket.get());
  if (stranger->handshake.complete()) {
    admit(*stranger);
    strangers_.erase(stranger);
  } else if (stranger->handshake.state() == Handshake::State::kFailed) {
    log(4, std::string("shm: dropped a connection: ") + stranger->handshake.explain());
    strangers_.erase(stranger);
  }
  return moved;
}

void Endpoint::admit(Stranger& stranger) {
  Introduction who{};
  const auto payload = stranger.handshake.peer_payload();
  if (payload.size() == sizeof who) std::memcpy(&who, payload.data(), sizeof who);
  unwatch(stranger.socket.get());
  if (who.ranks != ranks_ || who.rank <= rank_ || who.rank >= ranks_ || who.traffic_class != traffic_class_ ||
      !peer(who.rank).adopt(std::move(stranger.socket))) {
    log(2, "shm: rank " + std::to_string(rank_) + " refused a connection of rank " + std::to_string(who.rank) + " of " +
               std::to_string(who.ranks));
  }
}

bool Endpoint::expire() {
  if (waiting_.empty() && strangers_.empty()) return false;
  const std::uint64_t now = now_ns();
  while (!strangers_.empty() && strangers_.front().until_ns <= now) strangers_.pop_front();
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

void Endpoint::watch(int fd, int rank, bool output, bool known) {
  const std::uint32_t events = output ? EPOLLIN | EPOLLOUT : EPOLLIN;
  // Where this fails (no memory) the socket is still looked at when the peer says so in our page.
  control(epoll_.get(), known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, events, tag(kPeer, static_cast<std::uint64_t>(rank)));
}

// Said aloud, for closing is not enough where a forked child still has the file open.
void Endpoint::unwatch(int fd) { control(epoll_.get(), EPOLL_CTL_DEL, fd, 0, 0); }

Handshake Endpoint::handshake(Handshake::Role role) const {
  const Introduction who{rank_, ranks_, traffic_class_};
  std::array<unsigned char, sizeof who> payload;
  std::memcpy(payload.data(), &who, sizeof who);
  return Handshake(role, key_, "tutti shm 2", payload);
}

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
