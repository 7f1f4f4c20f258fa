#include "transports/shm/peer.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "transports/shm/endpoint.h"
#include "transports/shm/link.h"

namespace tutti::shm {

using near::SocketResult;

namespace {

// What one call takes from one socket, so that a talkative peer does not starve the others.
constexpr int kPacketsAtOnce = 256;

}  // namespace

Peer::Peer(Endpoint& endpoint, int rank)
    : endpoint_(endpoint), connection_(endpoint.local(), endpoint.poller(), Endpoint::tag_of_peer(rank), rank) {}

void Peer::meet(const near::LocalAddress& address) {
  if (stage_ == Stage::kGone) return;
  connection_.meet(address);
  if (stage_ != Stage::kIdle) return;
  endpoint_.connecting(*this, true);
  advance();
}

bool Peer::adopt(UniqueFd socket) {
  if (stage_ != Stage::kIdle && stage_ != Stage::kGreeting) return false;
  connection_.adopt(std::move(socket));
  greet();
  return true;
}

bool Peer::advance() {
  if (stage_ == Stage::kIdle) return connect();
  if (stage_ == Stage::kGone) return false;
  const bool moved = flush();
  return receive() || moved;
}

bool Peer::connect() {
  using State = near::LocalConnection::State;
  const bool moved = connection_.advance();
  if (connection_.state() == State::kEnded) gone();
  if (connection_.state() == State::kConnected) greet();
  return moved;
}

void Peer::greet() {
  endpoint_.connecting(*this, false);
  incoming_ = {};
  received_ = sent_ = 0;
  stage_ = Stage::kGreeting;
  greeting_ = endpoint_.hello();
  advance();
}

void Peer::end(std::string why) {
  if (stage_ == Stage::kGone) return;
  UniqueFd socket = connection_.end(std::move(why));
  if (writes()) parting_ = std::move(socket);
  gone();
}

void Peer::gone() {
  endpoint_.log(3, why_gone());  // a peer that leaves in order ends so, too; errors have it where it matters
  endpoint_.connecting(*this, false);
  stage_ = Stage::kGone;
  greeting_.reset();
  outbox_.clear();
  offered_.clear();
  // Links do not leave these maps when they break, only when they are closed.
  for (const auto& [channel, link] : senders_) link->break_off(why_gone());
  for (const auto& [channel, link] : receivers_) link->break_off(why_gone());
  std::erase_if(channel_pairs_, [this](const auto& pair) { return !has_sender(pair.first) && !has_receiver(pair.first); });
}

bool Peer::lost_connection() {
  if (stage_ == Stage::kReady) {
    // A process's sockets end after its mappings: see Endpoint's destructor, `end`, and the kernel's order of exit.
    fenced_ = true;
    end(name() + " has closed its shared memory: it has ended, or given this communicator up");
  } else {
    connection_.retry();
    greeting_.reset();
    stage_ = Stage::kIdle;
    endpoint_.connecting(*this, connection_.state() != near::LocalConnection::State::kUnmet);
  }
  return true;
}

bool Peer::receive() {
  bool moved = false;
  for (int i = 0; i < kPacketsAtOnce; ++i) {
    if (stage_ != Stage::kGreeting && stage_ != Stage::kReady) return moved;
    const SocketResult result = connection_.receive(incoming_, received_);
    if (result == SocketResult::kAgain) return moved;
    moved = true;
    if (result == SocketResult::kEnded) return lost_connection();
    Packet packet = std::exchange(incoming_, {});
    received_ = 0;
    handle(packet);
  }
  return moved;
}

bool Peer::send_front(const Packet& packet) {
  const SocketResult result = connection_.send(packet, sent_);
  if (result == SocketResult::kDone) sent_ = 0;
  if (result == SocketResult::kRefused) {
    end(system_error("this process cannot tell " + name() + " of its shared memory", errno).error().message);
    return false;
  }
  // Where the peer is gone the receiving side finds out, behind what the peer still sent.
  if (result == SocketResult::kEnded) {
    sent_ = 0;
    outbox_.clear();
    greeting_.reset();
  }
  return result == SocketResult::kDone;
}

bool Peer::flush() {
  bool moved = false;
  if (greeting_ && send_front(*greeting_)) {
    greeting_.reset();
    moved = true;
  }
  while (stage_ == Stage::kReady && !greeting_ && !outbox_.empty() && send_front(outbox_.front())) {
    outbox_.pop_front();
    moved = true;
  }
  // The peer looks at its sockets when it sees this, not at once each time it makes progress. Relaxed: a hint, see
  // progress.
  if (moved && page_ != nullptr) shared(page_->attention).store(1, std::memory_order_relaxed);
  watch_output();
  return moved;
}

void Peer::watch_output() { connection_.watch_output(greeting_ || (stage_ == Stage::kReady && !outbox_.empty())); }

void Peer::post(Packet packet) {
  if (stage_ == Stage::kGone) return;
  outbox_.push_back(std::move(packet));
  if (stage_ == Stage::kReady) flush();
}

bool Peer::says_only_what_is_gone() const {
  return std::ranges::all_of(outbox_, [](const Packet& packet) {
    const Verb verb = packet.message.verb;
    return verb == Verb::kCloseSender || verb == Verb::kCloseReceiver || verb == Verb::kForgetRegion;
  });
}

void Peer::ring() const {
  if (!doorbell_) return;
  // Whoever clears the word rings, so that a sleeper is rung once. Relaxed: the kernel orders the wake-up itself.
  if (shared(page_->sleeping).exchange(0, std::memory_order_relaxed) == 0) return;
  near::ring_doorbell(*doorbell_);
}

void Peer::handle(Packet& packet) {
  const ControlMessage& m = packet.message;
  if (m.protocol != kProtocol || (stage_ == Stage::kGreeting) != (m.verb == Verb::kHello)) {
    return end(name() + " speaks another version of the shared-memory protocol");
  }
  switch (m.verb) {
    case Verb::kHello:
      return take_hello(packet);
    case Verb::kLink:
      return take_link(packet);
    case Verb::kAccept:
      if (SenderLink* link = sender_of(m)) link->accepted();
      return;
    case Verb::kRefuse:
      if (SenderLink* link = sender_of(m)) link->refused(m);
      return;
    case Verb::kCloseReceiver:
      return take_close_receiver(m);
    case Verb::kCloseSender:
      return take_close_sender(m);
    case Verb::kRegion:
      return take_region(packet);
    case Verb::kForgetRegion:
      return forget_region(m.a);
    case Verb::kRefuseRegion:
      return region_refused(m.a);
  }
  end(name() + " sent a message of unknown kind " + std::to_string(static_cast<std::uint32_t>(m.verb)));
}

void Peer::take_hello(const Packet& packet) {
  if (packet.lost) {
    return end("this process has no free file descriptor for the memory of " + name() +
               "; raise the limit of open files (ulimit -n)");
  }
  if (!packet.descriptors[0] || !packet.descriptors[1]) return end(name() + " passed no descriptors");
  if (!near::is_doorbell(*packet.descriptors[1])) return end(name() + " passed something else than an event descriptor");
  connection_.set_pid(packet.message.pid);
  Result<Mapping> page = map_memory(packet.descriptors[0]->get(), 0, kPage, true);
  if (!page.ok()) return end(name() + ": " + page.status().error().message);
  page_mapping_ = std::move(*page);
  page_ = static_cast<EndpointPage*>(page_mapping_.data());
  doorbell_ = packet.descriptors[1];
  stage_ = Stage::kReady;
  // It is alive from now on until its socket says otherwise: it may come as late as it likes with its ends of the links.
  for (const auto& [channel, link] : senders_) endpoint_.link_met(*link);
  for (const auto& [channel, link] : receivers_) endpoint_.link_met(*link);
  flush();
}

SenderLink* Peer::sender_of(const ControlMessage& message) const {
  const auto found = senders_.find(message.channel);
  return found != senders_.end() && found->second->serial() == message.serial ? found->second : nullptr;
}

void Peer::take_link(const Packet& packet) {
  const auto found = receivers_.find(packet.message.channel);
  if (found != receivers_.end() && found->second->stage() == ShmLink::Stage::kOpening) {
    found->second->offered(packet.message, packet.descriptors[0]);
  } else {
    offered_.emplace(packet.message.channel, OfferedLink{packet.message, packet.descriptors[0]});
  }
}

void Peer::take_close_sender(const ControlMessage& message) {
  const auto found = receivers_.find(message.channel);
  if (found != receivers_.end() && found->second->serial() == message.serial) {
    found->second->break_off(name() + " has closed its end of channel " + std::to_string(message.channel));
    return;
  }
  // Nobody has accepted it, so nothing was ever committed there.
  const auto [first, last] = offered_.equal_range(message.channel);
  const auto same = std::find_if(first, last, [&](const auto& o) { return o.second.message.serial == message.serial; });
  if (same != last) offered_.erase(same);
}

void Peer::take_close_receiver(const ControlMessage& message) {
  if (SenderLink* const link = sender_of(message)) {
    return link->receiver_closed(name() + " has closed its end of channel " + std::to_string(message.channel));
  }
  const auto found = channel_pairs_.find(message.channel);
  if (found == channel_pairs_.end()) return;
  found->second.peer_closed(message.serial);
  sweep_channel(message.channel);
}

/// Frees what nobody needs of a channel any more.
void Peer::sweep_channel(std::uint64_t channel) {
  const auto found = channel_pairs_.find(channel);
  if (found == channel_pairs_.end()) return;
  ChannelPair& pair = found->second;
  if (pair.receiver == nullptr && stage_ == Stage::kGone) pair.gone.clear();
  if (pair.receiver == nullptr) pair.sweep();
  if (pair.gone.empty() && !has_sender(channel) && !has_receiver(channel)) channel_pairs_.erase(found);
}

std::optional<OfferedLink> Peer::take_offered(std::uint64_t channel) {
  const auto found = offered_.lower_bound(channel);
  if (found == offered_.end() || found->first != channel) return std::nullopt;
  OfferedLink offered = std::move(found->second);
  offered_.erase(found);
  return offered;
}

void Peer::take_region(const Packet& packet) {
  const ControlMessage& m = packet.message;
  if (packet.lost)
    return refuse_region(m.a, "there was no free file descriptor; raise the limit of open files (ulimit -n)");
  if (!packet.descriptors[0] || m.b == 0 || m.c > UINT64_MAX - m.b - kPage) {
    return end(name() + " announced a region without memory");
  }
  auto region = std::make_unique<PeerRegion>(packet.descriptors[0], m.b, m.c);
  // Mapped now, so that its descriptor is free again. Where the file is not what was announced, whoever uses it learns so.
  const Status mapped = region->map();
  if (!mapped.ok() && mapped.error().system_error != 0) return refuse_region(m.a, mapped.error().message);
  regions_.try_emplace(m.a, std::move(region));
}

/// What the peer wanted to pass that way travels by slot.
void Peer::refuse_region(std::uint64_t id, const std::string& why) {
  endpoint_.log(2, "shm: memory of " + name() + " is not shared: " + why);
  Packet answer;
  answer.message.verb = Verb::kRefuseRegion;
  answer.message.a = id;
  post(std::move(answer));
}

void Peer::region_refused(std::uint64_t id) {
  endpoint_.region_refused(id, rank());
  for (const auto& [channel, link] : senders_) link->region_refused(id);
}

bool Peer::unpost_region(std::uint64_t id) {
  const auto found = std::find_if(outbox_.begin(), outbox_.end(), [&](const Packet& packet) {
    return packet.message.verb == Verb::kRegion && packet.message.a == id;
  });
  // Descriptors go with the first byte.
  if (found == outbox_.end() || (found == outbox_.begin() && sent_ > 0)) return false;
  outbox_.erase(found);
  return true;
}

bool Peer::writes() const {
  return std::any_of(senders_.begin(), senders_.end(), [](const auto& s) { return s.second->has_grant(); });
}

void Peer::put_ended() {
  if (parting_ && !writes()) parting_.reset();
}

void Peer::forget_region(std::uint64_t id) {
  const auto found = regions_.find(id);
  if (found == regions_.end()) return;
  found->second->forgotten = true;
  sweep_regions();
}

void Peer::sweep_regions() {
  std::erase_if(regions_, [](const auto& r) { return r.second->forgotten && !r.second->held(); });
  last_region_id_ = UINT64_MAX;
  last_region_ = nullptr;
}

PeerRegion* Peer::find_region(std::uint64_t id) {
  const auto found = regions_.find(id);
  if (found == regions_.end()) return nullptr;
  last_region_id_ = id;
  last_region_ = found->second.get();
  return last_region_;
}

void Peer::add(SenderLink& link) { senders_[link.channel()] = &link; }
void Peer::add(ReceiverLink& link) { receivers_[link.channel()] = &link; }

void Peer::remove(SenderLink& link) {
  senders_.erase(link.channel());
  sweep_channel(link.channel());
}
void Peer::remove(ReceiverLink& link) {
  receivers_.erase(link.channel());
  sweep_channel(link.channel());
}

bool Peer::has_sender(std::uint64_t channel) const { return senders_.contains(channel); }
bool Peer::has_receiver(std::uint64_t channel) const { return receivers_.contains(channel); }

}  // namespace tutti::shm
