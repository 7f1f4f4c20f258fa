#include "transports/tcp/peer.h"

#include <algorithm>

#include "src/base/clock.h"
#include "src/tables/units.h"
#include "transports/tcp/endpoint.h"

namespace tutti::tcp {

namespace {

constexpr std::uint32_t kLowChannels = 256;           // found by index
constexpr std::size_t kMostHighChannels = 64 * 1024;  // found by hash; peers can only make us remember so many
constexpr std::uint32_t kMostSockets = 64;

}  // namespace

LinkPair* Peer::find_channel(std::uint32_t number) {
  if (number < kLowChannels) return number < low_channels_.size() ? low_channels_[number].get() : nullptr;
  const auto found = high_channels_.find(number);
  return found == high_channels_.end() ? nullptr : found->second.get();
}

LinkPair* Peer::channel(std::uint32_t number) {
  if (LinkPair* known = find_channel(number)) return known;
  if (number < kLowChannels) {
    if (low_channels_.size() <= number) low_channels_.resize(number + 1);
    low_channels_[number] = std::make_unique<LinkPair>();
    return low_channels_[number].get();
  }
  if (high_channels_.size() >= kMostHighChannels) return nullptr;
  return (high_channels_[number] = std::make_unique<LinkPair>()).get();
}

template <typename Action>
void Peer::each_channel(const Action& action) {
  for (std::size_t i = 0; i < low_channels_.size(); ++i) {
    if (low_channels_[i]) action(static_cast<std::uint32_t>(i), *low_channels_[i]);
  }
  for (auto& [number, channel] : high_channels_) action(number, *channel);
}

Stream* Peer::stream_for(std::uint32_t channel) const {
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
    ++find_channel(link.shape().channel)->direction(link.sends()).own_closes;
  }
  return *link.quiesced();
}

void Peer::close_link(TcpLink& link) {
  static_cast<void>(quiesce(link));
  LinkPair* channel = find_channel(link.shape().channel);
  if (link.sends()) {
    channel->sender.reset();
  } else {
    channel->receiver.reset();
  }
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
  each_channel([&](std::uint32_t number, LinkPair& channel) {
    if (stream_for(number) != &stream) return;
    for (const bool sends : {true, false}) {
      // Ends that were given up before there was a connection: the peer counts them too.
      for (std::uint64_t i = 0; i < channel.direction(sends).own_closes; ++i) stream.say_closed(number, sends);
      TcpLink* const link = channel.link(sends);
      if (link != nullptr && !link->broken() && !link->quiesced()) link->attach(stream);
    }
  });
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
  each_channel([&](std::uint32_t, LinkPair& channel) {
    if (channel.sender && channel.sender->stream() == nullptr) channel.sender->fail(sentence);
    if (channel.receiver && channel.receiver->stream() == nullptr) channel.receiver->fail(sentence);
  });
}

void Peer::stream_ended(Stream& stream, const std::string& sentence, bool orderly) {
  endpoint_.log(orderly ? 3 : 2, sentence);
  each_channel([&](std::uint32_t, LinkPair& channel) {
    if (channel.sender && channel.sender->stream() == &stream) channel.sender->fail(sentence, orderly);
    if (channel.receiver && channel.receiver->stream() == &stream) channel.receiver->fail(sentence, orderly);
  });
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
