#include "transports/tcp/stream.h"

#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>

#include "src/base/addresses.h"
#include "src/base/copy.h"
#include "src/base/socket.h"
#include "transports/tcp/peer.h"

namespace tutti::tcp {

namespace {

const char* error_text(int number) {
  // The few that a connection can die of; strerror is not thread safe.
  switch (number) {
    case ECONNRESET:
      return "connection reset";
    case EPIPE:
      return "connection closed";
    case ETIMEDOUT:
      return "no answer from its machine";
    case EHOSTUNREACH:
    case ENETUNREACH:
      return "its network cannot be reached any more";
    default:
      return "the connection failed";
  }
}

/// Both ends have the same address.
bool is_nearby(int fd) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&storage), &length) != 0) return false;
  SocketAddress peer(reinterpret_cast<const sockaddr*>(&storage), length);
  SocketAddress own = bound_address(fd);
  peer.set_port(0);
  own.set_port(0);
  return peer == own;
}

/// Says that an end of a link is given up.
OutFrame close_frame(std::uint64_t channel, bool by_sender) {
  OutFrame frame;
  frame.header = control_frame(FrameKind::kClose, channel);
  frame.header.flags = by_sender ? kBySender : 0;
  return frame;
}

/// Between the ends on one machine there is no network to be gentle to, and a congestion control that paces, such as BBR,
/// takes up to twice as long there. Reno is in every kernel and may be chosen by everybody; without it nothing changes.
void hurry(int fd) {
  static constexpr char reno[] = "reno";
  ::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, reno, sizeof reno - 1);
}

}  // namespace

Stream::Stream(Peer& peer, std::uint32_t index, UniqueFd socket, std::string remote)
    : peer_(peer),
      index_(index),
      socket_(std::move(socket)),
      remote_(std::move(remote)),
      nearby_(is_nearby(socket_.get())) {
  if (nearby_) hurry(socket_.get());
}

void Stream::ready(std::uint32_t) {
  read();
  if (!idle()) write();
}

// ---- Out.

void Stream::send(OutFrame frame) {
  if (broken_) return;
  const bool waits = !out_.empty();
  out_.push_back(std::move(frame));
  if (!waits) write();
}

void Stream::owe(Receiver& receiver) {
  if (!broken_ && receiver.owed() == 1) owing_.push_back(&receiver);
}

void Stream::announce() {
  queue_credit();
  write();
}

// A credit frame that still waits is brought up to date; a second one before it would reach the peer in the wrong order.
bool Stream::renew_credit(const FrameHeader& credit) {
  for (std::size_t i = front_sent_ > 0 ? 1 : 0; i < out_.size() && out_[i].header.is(FrameKind::kCredit); ++i) {
    if (out_[i].header.channel != credit.channel) continue;
    out_[i].header = credit;
    return true;
  }
  return false;
}

// Credit overtakes what is queued: it must not wait behind a long message, or both directions would wait for each other.
void Stream::queue_credit() {
  if (broken_) return;
  for (Receiver* receiver : owing_) {
    OutFrame frame;
    frame.header = receiver->announce();
    if (renew_credit(frame.header)) continue;
    const bool begun = front_sent_ > 0;
    OutFrame first;
    if (begun) first = out_.pop_front();
    out_.push_front(std::move(frame));
    if (begun) out_.push_front(std::move(first));
  }
  owing_.clear();
}

int Stream::gather(iovec* pieces, std::uint64_t* total) {
  int n = 0;
  *total = 0;
  for (std::size_t i = 0; i < out_.size() && n + 2 <= kPieces; ++i) {
    OutFrame& frame = out_[i];
    std::uint64_t skip = i == 0 ? front_sent_ : 0;
    if (skip < sizeof frame.header) {
      pieces[n++] = {reinterpret_cast<std::byte*>(&frame.header) + skip, sizeof frame.header - skip};
      skip = sizeof frame.header;
    }
    skip -= sizeof frame.header;
    const std::uint64_t left = frame.header.payload() - skip;
    // sendmsg does not write through this pointer; iovec serves both directions and is not const.
    if (left > 0)
      pieces[n++] = {const_cast<std::byte*>(frame.payload + (skip - frame.payload_from)), static_cast<std::size_t>(left)};
  }
  for (int i = 0; i < n; ++i) *total += pieces[i].iov_len;
  return n;
}

bool Stream::write() {
  if (broken_) return false;
  if (!out_.empty()) queue_credit();  // 40 bytes more in a call that is made anyway
  bool moved = false;
  while (!out_.empty()) {
    iovec pieces[kPieces];
    std::uint64_t total = 0;
    msghdr message{};
    message.msg_iov = pieces;
    message.msg_iovlen = static_cast<std::size_t>(gather(pieces, &total));
    const ssize_t sent = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN && errno != EWOULDBLOCK && errno != ENOBUFS) output_failed(errno);
      return moved;
    }
    moved = true;
    retire(static_cast<std::uint64_t>(sent));
    if (static_cast<std::uint64_t>(sent) < total) break;  // the socket is full: the next turn goes on
  }
  return moved;
}

void Stream::retire(std::uint64_t sent) {
  front_sent_ += sent;
  while (!out_.empty() && front_sent_ >= out_.front().size()) {
    front_sent_ -= out_.front().size();
    OutFrame frame = out_.pop_front();
    if (frame.sender != nullptr) frame.sender->gone(std::move(frame.staging));
  }
}

void Stream::output_failed(int number) { finish(peer_.name() + " at " + remote_ + " died: " + error_text(number)); }

// What arrived before the peer died is still to be delivered, so the input is emptied before anybody is told.
void Stream::finish(const std::string& sentence) {
  bool moved = false;
  while (!broken_ && read_once(&moved) > 0) {
  }
  end(sentence, false);
}

void Stream::say_goodbye() {
  if (broken_) return;
  queue_credit();
  OutFrame frame;
  frame.header = control_frame(FrameKind::kGoodbye, 0);
  out_.push_back(std::move(frame));
  write();
}

bool Stream::settled() {
  bool waits = false;
  for (std::size_t i = 0; i < out_.size() && !broken_; ++i) {
    if (out_[i].sender != nullptr) return true;
    waits = waits || !out_[i].header.is(FrameKind::kClose);
  }
  return !waits;
}

bool Stream::delivered() const {
  if (broken_) return true;
  // Over loopback sending is delivering; the acknowledgement would come 40 ms later, when the peer has nothing to say.
  int unsent = 0;
  return out_.empty() && (::ioctl(socket_.get(), nearby_ ? SIOCOUTQNSD : SIOCOUTQ, &unsent) != 0 || unsent == 0);
}

void Stream::drain() {
  char sink[16 * 1024];
  while (!broken_) {
    const ssize_t n = ::recv(socket_.get(), sink, sizeof sink, MSG_DONTWAIT);
    if (n > 0 || (n < 0 && errno == EINTR)) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    broken_ = true;
  }
}

// The rest of a message that has begun must follow, or the peer would lose the frames' boundaries: it is sent from a copy.
bool Stream::rescue(OutFrame& frame) {
  frame.sender = nullptr;
  if (frame.staging) return true;
  const std::uint64_t gone = front_sent_ > sizeof frame.header ? front_sent_ - sizeof frame.header : 0;
  const std::uint64_t left = frame.header.payload() - gone;
  if (left == 0) return true;
  if (left > kLongestRescue) return false;
  frame.staging = ByteBuffer(static_cast<std::size_t>(left));
  if (!frame.staging) return false;
  copy_memory(frame.staging.data(), frame.payload + gone, static_cast<std::size_t>(left));
  frame.payload = frame.staging.data();
  frame.payload_from = gone;
  return true;
}

bool Stream::forget(Sender& sender) {
  write();
  if (broken_) return true;
  if (!out_.empty() && front_sent_ > 0 && out_.front().sender == &sender && !rescue(out_.front())) {
    end("this rank closed its link to " + peer_.name() + " in the middle of a message too long to be finished", false);
    return false;
  }
  bool dropping = false;  // after the first message that is dropped nothing of this link may follow
  out_.remove_if(front_sent_ > 0 ? 1 : 0, [&](OutFrame& frame) {
    if (frame.sender != &sender) return false;
    dropping = dropping || !frame.staging;
    frame.sender = nullptr;
    return dropping;
  });
  say_closed(sender.shape().channel, true);
  return true;
}

void Stream::forget(Receiver& receiver) {
  std::erase(owing_, &receiver);
  if (broken_) return;
  reader_.drop_current(receiver.shape().channel);
  say_closed(receiver.shape().channel, false);
}

void Stream::say_closed(std::uint64_t channel, bool by_sender) { send(close_frame(channel, by_sender)); }

// ---- In.

bool Stream::read() {
  bool moved = false;
  for (int turn = 0; turn < kTurns && !broken_; ++turn) {
    if (read_once(&moved) <= 0) break;
  }
  return moved;
}

int Stream::read_once(bool* moved) {
  iovec pieces[2];
  const int n = reader_.spans(pieces);
  const std::size_t room = pieces[0].iov_len + (n == 2 ? pieces[1].iov_len : 0);
  ssize_t got = 0;
  do {
    got = n == 1 ? ::recv(socket_.get(), pieces[0].iov_base, pieces[0].iov_len, MSG_DONTWAIT)
                 : ::readv(socket_.get(), pieces, n);
  } while (got < 0 && errno == EINTR);
  if (got > 0) {
    *moved = true;
    if (!reader_.consume(static_cast<std::size_t>(got)) || broken_) return -1;
    return static_cast<std::size_t>(got) == room ? 1 : 0;
  }
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return 0;
  const char* how = got < 0                 ? error_text(errno)
                    : reader_.at_boundary() ? "its end of the connection closed without a goodbye"
                                            : "its end of the connection closed in the middle of a message";
  *moved = true;
  end(peer_.name() + " at " + remote_ + " died: " + how, false);
  return -1;
}

bool Stream::violated(const FrameHeader& header, const std::string& what) {
  end(peer_.name() + " at " + remote_ + " broke the protocol on channel " + std::to_string(header.channel) + ": " + what,
      false);
  return false;
}

void Stream::malformed(const FrameHeader& header, const char* what) { violated(header, std::string("it sent ") + what); }

bool Stream::message_begins(const FrameHeader& header, std::byte** target) {
  LinkPair* channel = peer_.find_channel(header.channel);
  if (channel != nullptr && channel->receiving.stale()) return true;  // for an end that was given up: dropped
  Receiver* receiver = channel != nullptr ? channel->receiver.get() : nullptr;
  if (receiver == nullptr || !channel->receiving.met()) return violated(header, "it sent to a link that is not open");
  if (receiver->stream() != this) return violated(header, "a message came on the wrong connection");
  if (receiver->broken()) return true;
  std::string why;
  return receiver->begin(header, target, &why) || violated(header, why);
}

bool Stream::message_ends(const FrameHeader& header) {
  LinkPair* channel = peer_.find_channel(header.channel);
  if (channel == nullptr || !channel->receiver || channel->receiving.stale()) return true;
  if (!channel->receiver->broken()) channel->receiver->end();
  return true;
}

bool Stream::control(const FrameHeader& header) {
  switch (static_cast<FrameKind>(header.kind)) {
    case FrameKind::kCredit:
      return credit(header);
    case FrameKind::kOpen:
      return open(header);
    case FrameKind::kClose:
      return close(header);
    case FrameKind::kGoodbye:
      end(peer_.name() + " at " + remote_ + " left: it closed its end of this communicator", true);
      return false;
    default:
      return violated(header, "it sent a frame that has no place here");
  }
}

bool Stream::credit(const FrameHeader& header) {
  LinkPair* channel = peer_.find_channel(header.channel);
  if (channel != nullptr && channel->sending.stale()) return true;
  if (channel == nullptr || !channel->sender || !channel->sending.met()) {
    return violated(header, "it gave credit for a link that is not open");
  }
  if (channel->sender->broken()) return true;
  return channel->sender->credit(header.sequence) || violated(header, "it gave credit for messages that were never sent");
}

bool Stream::open(const FrameHeader& header) {
  LinkPair* channel = peer_.channel(header.channel);
  if (channel == nullptr) return violated(header, "it opened too many channels");
  const bool of_sender = (header.flags & kBySender) == 0;  // of our sender, if their end receives
  Direction& direction = channel->direction(of_sender);
  if (direction.peer_open) return violated(header, "it opened the same end twice");
  direction.peer_open = true;
  direction.peer_window = header.sequence;
  direction.peer_slot_bytes = header.bytes;
  peer_.meet(*channel, of_sender);
  return true;
}

bool Stream::close(const FrameHeader& header) {
  LinkPair* channel = peer_.channel(header.channel);
  if (channel == nullptr) return violated(header, "it closed too many channels");
  const bool of_sender = (header.flags & kBySender) == 0;
  Direction& direction = channel->direction(of_sender);
  direction.peer_closes();
  // What the peer was never told that this side has opened, and has given up, never was: the next life begins.
  const TcpLink* const link = channel->link(of_sender);
  const bool is_untold = link == nullptr || (link->quiesced() && link->stream() == nullptr);
  if (direction.closed_by_peer() && is_untold) {
    direction.closes();
    out_.push_back(close_frame(header.channel, of_sender));  // the turn that reads this writes it
  }
  peer_.meet(*channel, of_sender);
  peer_.forget_if_unused(header.channel);
  return true;
}

void Stream::end(const std::string& sentence, bool orderly) {
  if (broken_) return;
  broken_ = true;
  socket_.reset();  // from here on nobody writes into granted memory, and epoll has forgotten it
  owing_.clear();
  while (!out_.empty()) out_.pop_front();
  front_sent_ = 0;
  peer_.stream_ended(*this, sentence, orderly);
}

}  // namespace tutti::tcp
