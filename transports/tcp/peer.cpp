#include "transports/tcp/peer.h"

#include <algorithm>

#include "src/base/clock.h"
#include "src/tables/units.h"
#include "transports/tcp/endpoint.h"

namespace tutti::tcp {

namespace {

constexpr std::size_t kMostChannels = 1 << 20;  // peers can only make us remember so many
constexpr std::uint32_t kMostSockets = 64;

}  // namespace

LinkPair* Peer::look_up_channel(std::uint64_t number) {
  const auto found = channels_.find(number);
  if (found == channels_.end()) return nullptr;
  last_number_ = number;
  return last_ = found->second.get();
}

LinkPair* Peer::channel(std::uint64_t number) {
  if (LinkPair* known = find_channel(number)) return known;
  if (channels_.size() >= kMostChannels) return nullptr;
  return channels_.try_emplace(number, std::make_unique<LinkPair>()).first->second.get();
}

void Peer::forget_if_unused(std::uint64_t number) {
  const auto found = channels_.find(number);
  if (found == channels_.end() || found->second->has_links()) return;
  const LinkPair& channel = *found->second;
  const Stream* const stream = stream_for(number);
  const bool hears = fault_.empty() || (stream != nullptr && !stream->broken());
  if (hears && !(channel.sending.fresh() && channel.receiving.fresh())) return;
  if (last_ == &channel) last_ = nullptr;
  channels_.erase(found);
}

Stream* Peer::stream_for(std::uint64_t channel) const {
  return streams_.empty() ? nullptr : streams_[channel % streams_.size()].get();
}

void Peer::meet(LinkPair& channel, bool sends) {
  TcpLink* link = channel.link(sends);
  const Direction& direction = channel.direction(sends);
  if (link == nullptr) return;
  if (direction.closed_by_peer()) link->fail(why_closed(*link), true);
  if (direction.met() && !link->open()) link->opened(direction.peer_window, direction.peer_slot_bytes);
}

Result<TcpLink*> Peer::open_link(const Card& card, const LinkShape& shape, bool sends) {
  LinkPair* channel = this->channel(shape.channel);
  if (channel == nullptr || channel->link(sends) != nullptr) {
    const std::string number = std::to_string(shape.channel);
    return Status(TUTTI_INVALID_USAGE, channel == nullptr ? name() + " has too many channels for another, " + number
                                                          : "that end of channel " + number + " is open already");
  }
  if (sends) {
    channel->sender = std::make_unique<Sender>(*this, shape);
  } else {
    channel->receiver = std::make_unique<Receiver>(*this, shape);
  }
  TcpLink* const link = channel->link(sends);
  if (id_ && *id_ != card.id) fault_ = name() + " connected under another identity than its descriptor has";
  id_ = card.id;
  Stream* stream = stream_for(shape.channel);
  if (stream != nullptr && !stream->broken()) link->attach(*stream);
  if (!fault_.empty()) link->fail(fault_);
  meet(*channel, sends);
  if (fault_.empty() && streams_.empty() && !dialer_) {
    dialer_ = std::make_unique<Dialer>(endpoint_, *this, card);
  }
  absence_ = {};
  return link;
}

tutti_quiesced Peer::quiesce(TcpLink& link) {
  if (!link.quiesced()) {
    link.quiesce();
    // The peer does not know of an end that it was never told of.
    if (link.stream() != nullptr) find_channel(link.shape().channel)->direction(link.sends()).closes();
  }
  return *link.quiesced();
}

void Peer::close_link(TcpLink& link) {
  static_cast<void>(quiesce(link));
  const std::uint64_t number = link.shape().channel;
  LinkPair* channel = find_channel(number);
  if (link.sends()) {
    channel->sender.reset();
  } else {
    channel->receiver.reset();
  }
  forget_if_unused(number);
}

Stream& Peer::add_stream(std::uint32_t index, std::uint32_t count, UniqueFd socket, const std::string& remote) {
  streams_.resize(count);
  streams_[index] = std::make_unique<Stream>(*this, index, std::move(socket), remote);
  endpoint_.add(*streams_[index]);
  return *streams_[index];
}

void Peer::adopt(std::uint32_t index, std::uint32_t count, UniqueFd socket, const std::string& remote) {
  connect_links(add_stream(index, count, std::move(socket), remote));
}

bool Peer::accept(const EndpointId& id, std::uint32_t index, std::uint32_t count, UniqueFd socket,
                  const std::string& remote) {
  if (!fault_.empty() || count == 0 || count > kMostSockets || index >= count || (id_ && *id_ != id)) return false;
  if (!streams_.empty() && (dialer_ || streams_.size() != count || streams_[index])) return false;
  if (dialer_ && endpoint_.rank() < rank_ && dialer_->promising()) return false;
  dialer_.reset();
  id_ = id;
  Stream& stream = add_stream(index, count, std::move(socket), remote);
  OutFrame answer;
  answer.header = control_frame(FrameKind::kAttach, index, count);
  stream.send(std::move(answer));
  connect_links(stream);
  return true;
}

void Peer::connect_links(Stream& stream) {
  // First all, and then told: what comes back meanwhile may change what channels there are.
  std::vector<TcpLink*> links;
  for (const auto& [number, channel] : channels_) {
    if (stream_for(number) != &stream) continue;
    for (const bool sends : {true, false}) {
      TcpLink* const link = channel->link(sends);
      if (link != nullptr && !link->broken() && !link->quiesced()) links.push_back(link);
    }
  }
  for (TcpLink* const link : links) link->attach(stream);
}

void Peer::dial(std::uint64_t now) {
  if (!dialer_) return;
  const std::uint64_t missing = absence_.look(now, !reached());
  dialer_->step(now);
  if (const std::uint64_t limit = endpoint_.connect_timeout_ns(); limit != 0 && missing >= limit) {
    unreachable(dialer_->starved()
                    ? "this process has had no descriptor or memory for a connection with " + name() + " for " +
                          duration_text(limit) + ". " + kShortageRemedy
                    : name() + " could not be reached within " + duration_text(limit) + " (" + dialer_->tried() + ")");
  }
  if (dialer_->finished() || !fault_.empty()) dialer_.reset();
}

bool Peer::reached() const {
  const auto connected = [](const auto& stream) { return stream != nullptr; };
  return (dialer_ && dialer_->connected()) || std::any_of(streams_.begin(), streams_.end(), connected);
}

bool Peer::waiting() const {
  if (!fault_.empty()) return false;
  if (dialer_ || streams_.empty()) return true;
  return std::any_of(streams_.begin(), streams_.end(), [](const auto& stream) { return !stream; });
}

void Peer::unreachable(const std::string& sentence) {
  if (fault_.empty()) fault_ = sentence;
  for (const auto& [number, channel] : channels_) {
    if (channel->sender && channel->sender->stream() == nullptr) channel->sender->fail(sentence);
    if (channel->receiver && channel->receiver->stream() == nullptr) channel->receiver->fail(sentence);
  }
}

void Peer::stream_ended(Stream& stream, const std::string& sentence, bool orderly) {
  endpoint_.log(orderly ? 3 : 2, sentence);
  for (const auto& [number, channel] : channels_) {
    if (channel->sender && channel->sender->stream() == &stream) channel->sender->fail(sentence, orderly);
    if (channel->receiver && channel->receiver->stream() == &stream) channel->receiver->fail(sentence, orderly);
  }
  unreachable(sentence);
  if (orderly) return;  // its other connections say goodbye themselves
  for (auto& other : streams_) {
    if (other && !other->broken()) other->finish(sentence);
  }
}

std::string Peer::why_closed(const TcpLink& link) const {
  return name() + " closed its " + (link.sends() ? "receiving" : "sending") + " end of channel " +
         std::to_string(link.shape().channel);
}

}  // namespace tutti::tcp
