#include "transports/tcp/endpoint.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <new>

#include "src/base/clock.h"
#include "src/base/descriptor_limit.h"
#include "src/base/random.h"
#include "src/base/socket.h"
#include "src/base/transport_helpers.h"

namespace tutti::tcp {

namespace {

constexpr double kLoopbackBandwidth = 3e9;
constexpr double kLoopbackLatency = 8e-6;
constexpr double kNetworkLatency = 25e-6;
constexpr double kPayloadShare = .94;  // what headers of Ethernet, IP and TCP leave at an MTU of 1500
constexpr std::uint32_t kNetworkSockets = 4;

struct Ports {
  std::uint32_t low = 0;
  std::uint32_t high = 0;
};
/// Errors: TUTTI_INVALID_ARGUMENT, where the option is not "low-high".
Result<Ports> ports_of(const tutti_endpoint_config& config) {
  const char* const text = tutti_option_of(&config, "ports");
  Ports ports;
  if (text == nullptr) return ports;
  int length = 0;
  const bool read = std::sscanf(text, "%u-%u%n", &ports.low, &ports.high, &length) == 2 && text[length] == '\0';
  if (read && ports.low <= ports.high && ports.high <= 65535) return ports;
  return Status(TUTTI_INVALID_ARGUMENT, "the option ports=" + std::string(text) + " is no range of ports",
                "Give it as 20000-20100");
}

void set_option(int fd, int level, int name, int value) { ::setsockopt(fd, level, name, &value, sizeof value); }

}  // namespace

// ---- Life.

Result<std::unique_ptr<Endpoint>> Endpoint::open(const tutti_endpoint_config& config) {
  std::unique_ptr<Endpoint> endpoint(new Endpoint);
  raise_descriptor_limit();
  const char* const named = tutti_option_of(&config, "interfaces");
  const std::string interfaces = named != nullptr ? named : "";
  auto locals = local_addresses(interfaces);
  if (!locals) return locals.status();
  const auto ports = ports_of(config);
  if (!ports) return ports.status();
  auto listener = listen_on(interfaces, ports->low, ports->high);
  if (!listener) return listener.status();
  endpoint->epoll_ = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
  if (!endpoint->epoll_) return system_error("Opening an epoll descriptor failed", errno);

  endpoint->rank_ = config.rank;
  endpoint->ranks_ = config.ranks;
  std::memcpy(endpoint->key_.data(), config.key, kKeyBytes);
  endpoint->connect_timeout_ns_ = config.connect_timeout_ns;
  endpoint->traffic_class_ = static_cast<std::uint32_t>(option_number(config, "dscp", 0));
  endpoint->sockets_per_peer_ = static_cast<std::uint32_t>(option_number(config, "sockets_per_peer", 0));
  endpoint->log_ = config.log;

  Card& card = endpoint->card_;
  random_bytes(card.id);
  card.rank = config.rank;
  card.machine = machine_id();
  card.network = network_namespace();
  card.megabits = interface_megabits(*locals);
  card.everywhere = interfaces.empty();
  card.addresses = listener->addresses;
  if (Status opened = endpoint->incoming_.open(std::move(listener->sockets)); !opened) return opened;
  return endpoint;
}

Endpoint::~Endpoint() {
  try {
    linger();
  } catch (const std::bad_alloc&) {
    // Without memory it does not linger: peers then may hear of a reset instead of a goodbye.
  }
}

// A socket that is closed with unread input resets the connection, and takes what the peer has not got yet with it. So
// everything is first seen to have reached the peers' kernels, with a goodbye behind it.
void Endpoint::linger() {
  const Deadline deadline = Deadline::in(kLinger);
  for (Stream* stream : streams_) stream->say_goodbye();
  while (!deadline.passed()) {
    std::vector<pollfd> waiting;
    for (Stream* stream : streams_) {
      stream->write();
      stream->drain();
      if (stream->delivered()) continue;
      const short events = static_cast<short>(stream->idle() ? POLLIN : POLLIN | POLLOUT);
      waiting.push_back({stream->fd(), events, 0});
    }
    if (waiting.empty()) return;
    // That the peer's kernel acknowledged raises no event, so the naps are short.
    ::poll(waiting.data(), waiting.size(), 1);
  }
}

void Endpoint::log(int level, const std::string& text) const {
  if (log_ != nullptr) log_(level, text.c_str());
}

void Endpoint::dropped(const std::string& remote, const std::string& why) const {
  log(3, "a connection from " + remote + " was dropped: " + why);
}

void Endpoint::dress(int fd) const {
  set_traffic_class(fd, traffic_class_);
  // A peer whose machine vanished while both sides were idle is noticed within half a minute.
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 4);
}

// ---- Peers.

bool Endpoint::reach(int peer, const Card& other, tutti_reach* reach, std::string* why) const {
  if (!is_peer(peer)) {
    *why = "tcp connects different ranks, and rank " + std::to_string(peer) + " is not another one";
    return false;
  }
  const std::vector<SocketAddress> ways = ways_to(other, card_);
  if (ways.empty()) {
    *why = "rank " + std::to_string(peer) + " listens only at addresses that mean nothing on this machine";
    return false;
  }
  const bool beside = other.beside(card_);
  if (beside && std::ranges::all_of(ways, loopback_is_down_for)) {
    *why = std::string(kLoopbackDown) + ". " + kLoopbackRemedy;
    return false;
  }
  const double megabits = std::min(other.megabits, card_.megabits);
  reach->bandwidth = beside ? kLoopbackBandwidth : megabits * 1e6 / 8 * kPayloadShare;
  reach->latency = beside ? kLoopbackLatency : kNetworkLatency;
  reach->capabilities = TUTTI_CAN_OFFER_ANY | TUTTI_CAN_GRANT_ANY | TUTTI_NEEDS_PROGRESS;
  reach->preference = 10;
  *why = beside ? "over loopback" : "over the network, at the slower side's interface speed";
  return true;
}

std::uint32_t Endpoint::sockets_to(const Card& other) const {
  if (sockets_per_peer_ > 0) return static_cast<std::uint32_t>(std::min(sockets_per_peer_, 64u));
  return other.machine == card_.machine ? 1 : kNetworkSockets;
}

Peer& Endpoint::peer(int rank) {
  auto& known = peers_[rank];
  if (!known) known = std::make_unique<Peer>(*this, rank);
  return *known;
}

Result<TcpLink*> Endpoint::open_link(int rank, const Card& card, const LinkShape& shape, bool sends) {
  if (!is_peer(rank) || card.rank != rank) {
    return Status(TUTTI_INVALID_ARGUMENT, "the descriptor is rank " + std::to_string(card.rank) +
                                              "'s, and a link with rank " + std::to_string(rank) +
                                              " was asked for by rank " + std::to_string(rank_));
  }
  Peer& other = peer(rank);
  Result<TcpLink*> link = other.open_link(card, shape, sends);
  expect(other);
  return link;
}

void Endpoint::expect(Peer& peer) {
  if (peer.waiting() && std::find(waiting_.begin(), waiting_.end(), &peer) == waiting_.end()) waiting_.push_back(&peer);
}

void Endpoint::attach(const DialIntroduction& other, std::uint32_t index, std::uint32_t count, UniqueFd socket,
                      const std::string& remote) {
  Peer& known = peer(other.rank);
  const bool accepted = known.accept(other.self, index, count, std::move(socket), remote);
  expect(known);
  if (accepted) return;
  log(3, "a connection of rank " + std::to_string(other.rank) + " from " + remote + " was turned away");
}

// ---- Watching.

std::uint64_t Endpoint::watch(Watcher& watcher, int fd, std::uint32_t events) {
  const std::uint64_t number = ++last_watch_;
  watchers_[number] = &watcher;  // first: where memory is out, epoll knows nothing of it
  epoll_event event{};
  event.events = events;
  event.data.u64 = number;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0) return number;
  log(0, "epoll refused a descriptor");
  watchers_.erase(number);
  return 0;
}

void Endpoint::rewatch(std::uint64_t number, int fd, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = number;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
}

void Endpoint::unwatch(std::uint64_t number, int fd) {
  watchers_.erase(number);
  if (fd >= 0) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

bool Endpoint::look_at_events() {
  epoll_event events[64];
  const int n = ::epoll_wait(epoll_.get(), events, 64, 0);
  for (int i = 0; i < n; ++i) {
    // Looked up by number: an earlier event of this round may have ended a later one's watcher.
    const auto found = watchers_.find(events[i].data.u64);
    if (found != watchers_.end()) found->second->ready(events[i].events);
  }
  return n > 0;
}

// ---- The turn of the wheel.

void Endpoint::add(Stream& stream) {
  streams_.push_back(&stream);
  // The newcomer may be the one too many to be read directly.
  for (Stream* each : streams_) ask_epoll(*each);
}

// Of streams that are read directly nothing is asked while this rank is awake: with every segment the kernel would tell
// epoll's queue, on the sender's time, 6 % of a short message's whole way.
void Endpoint::ask_epoll(Stream& stream) {
  if (stream.broken()) return;
  std::uint32_t wanted = sleeping_ || !directly() ? EPOLLIN : 0u;
  if (sleeping_ && !stream.idle()) wanted |= EPOLLOUT;
  if (wanted == stream.watched) return;
  if (stream.watched == 0) {
    stream.watch = watch(stream, stream.fd(), wanted);
    if (stream.watch == 0) return;  // asked again next time
  } else if (wanted == 0) {
    unwatch(stream.watch, stream.fd());
  } else {
    rewatch(stream.watch, stream.fd(), wanted);
  }
  stream.watched = wanted;
}

bool Endpoint::move_streams() {
  bool moved = false;
  const bool read_all = directly();
  bool ended = false;
  for (Stream* stream : streams_) {
    bool alive = read_all && stream->read();
    if (!stream->idle()) alive = stream->write() || alive;
    // Or else output that went out in another way than this, with what is sent next or when epoll told, would leave epoll
    // telling for ever that there is room for more.
    if (alive || (stream->watched & EPOLLOUT) != 0) ask_epoll(*stream);
    moved = moved || alive;
    ended = ended || stream->broken();
  }
  if (ended) drop_broken();
  return moved;
}

void Endpoint::drop_broken() {
  std::erase_if(streams_, [this](Stream* stream) {
    if (stream->broken()) unwatch(stream->watch, -1);
    return stream->broken();
  });
}

void Endpoint::meet_peers() {
  const std::uint64_t now = now_ns();
  incoming_.sweep(now);
  std::erase_if(waiting_, [now](Peer* peer) {
    peer->dial(now);
    return !peer->waiting();
  });
}

bool Endpoint::progress() {
  bool moved = move_streams();
  const bool expecting = !waiting_.empty() || incoming_.busy();
  const bool look = !directly() || look_soon_ || (expecting && !moved) || ++turns_ % kDoorsEvery == 0;
  if (look) {
    look_soon_ = false;
    moved = look_at_events() || moved;
  }
  if (look && (expecting || incoming_.busy())) meet_peers();
  if (moved) {
    idle_turns_ = 0;
  } else if (++idle_turns_ >= kIdleTurns) {
    pay_credit();
  }
  return moved;
}

void Endpoint::pay_credit() {
  for (Stream* stream : streams_) {
    if (stream->owes()) stream->announce();
  }
}

void Endpoint::arm(bool sleeping) {
  sleeping_ = sleeping;
  if (!sleeping) {
    // What epoll was asked is taken back where something moves: who naps again and again need not ask each time.
    look_soon_ = true;
    return;
  }
  pay_credit();
  for (Stream* stream : streams_) ask_epoll(*stream);
}

}  // namespace tutti::tcp
