// The two ends of a link: what the transport interface's link operations come to.
//
// Credit. A receiving end that was asked for s slots announces a window of 2s messages, and announces returned credit in
// lots of s: so its sender may always have s messages under way, and credit costs a system call per s messages only where
// nothing else travels that way. Buffers are allocated when a message comes, so a window that is not used costs nothing.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "include/tutti/transport.h"
#include "transports/tcp/buffer.h"
#include "transports/tcp/frame.h"

namespace tutti::tcp {

class Peer;
class Stream;

/// What both ends of a link must agree on.
struct LinkShape {
  std::uint64_t channel = 0;
  std::uint32_t window = 0;      ///< messages that may be under way
  std::uint64_t slot_bytes = 0;  ///< longest message that is reserved; longer ones are offered
};

/// The window for a caller's wish of `slots`.
std::uint32_t window_for(std::uint32_t slots);

/// What is common to both ends. One thread at a time, as all of an endpoint.
class TcpLink {
 public:
  TcpLink(Peer& peer, const LinkShape& shape) : peer_(peer), shape_(shape) {}
  virtual ~TcpLink() = default;
  TcpLink(const TcpLink&) = delete;
  TcpLink& operator=(const TcpLink&) = delete;

  /// The end's kind, for the checks of the C table.
  virtual bool sends() const = 0;
  /// Its connection is there: tells the peer that this end is open.
  void attach(Stream& stream);
  /// The other end is open, with this shape.
  void opened(std::uint64_t window, std::uint64_t slot_bytes);
  virtual tutti_link_result state(tutti_link_state* state) = 0;
  tutti_link_result failure() const;
  virtual tutti_link_result flushed() = 0;
  /// Tells the peer that this end goes; from here on no memory of the caller's is read or written. Once.
  void quiesce() { quiesced_ = give_up(); }
  /// What that came to; nothing before.
  const std::optional<tutti_quiesced>& quiesced() const { return quiesced_; }
  void count(tutti_link_stats& stats) const {
    stats.messages = messages_counted_;
    stats.bytes = bytes_counted_;
    stats.stalls = stalls_;
  }

  /// Breaks the link; the first sentence stays. orderly: the peer said that it leaves.
  void fail(const std::string& sentence, bool orderly = false);
  bool broken() const { return broken_; }
  bool open() const { return open_; }
  const std::string& fault() const { return fault_; }
  const LinkShape& shape() const { return shape_; }
  Stream* stream() const { return stream_; }
  Peer& peer() const { return peer_; }

 protected:
  /// Tells the peer, and lets go of the caller's memory.
  virtual tutti_quiesced give_up() = 0;
  void fill_state(tutti_link_state* state) const;
  /// Messages of a peer that left in order still wait to be viewed.
  virtual bool still_of_use() const { return false; }

  Peer& peer_;
  const LinkShape shape_;
  Stream* stream_ = nullptr;
  bool open_ = false;
  bool broken_ = false;
  bool orderly_ = false;
  std::string fault_;
  std::optional<tutti_quiesced> quiesced_;
  // What `count` says.
  std::uint64_t messages_counted_ = 0;
  std::uint64_t bytes_counted_ = 0;
  std::uint64_t stalls_ = 0;
};

/// The sending end.
class Sender final : public TcpLink {
 public:
  Sender(Peer& peer, const LinkShape& shape);

  bool sends() const override { return true; }
  tutti_link_result state(tutti_link_state* state) override;
  tutti_link_result flushed() override;
  tutti_link_result reserve(std::uint64_t bytes, tutti_room& room);
  tutti_link_result commit(std::uint64_t bytes, std::uint64_t fingerprint);
  tutti_link_result offer(const void* source, std::uint64_t bytes, std::uint64_t fingerprint);

  // ---- From the connection.
  /// Messages that may have been sent in all. False where no receiver can mean that.
  bool credit(std::uint64_t limit);
  /// A message is with the kernel; `staging` is its room, if it had any.
  void gone(ByteBuffer staging);

 private:
  tutti_quiesced give_up() override;
  bool may_send() const { return !broken_ && open_ && sent_ < limit_; }
  tutti_link_result send(const void* source, std::uint64_t bytes, std::uint64_t fingerprint, ByteBuffer staging);

  std::uint64_t sent_ = 0;  ///< messages handed to the connection
  std::uint64_t limit_;     ///< messages that the receiver has room for, in all
  BufferPool staging_;
  ByteBuffer reserved_;
  std::atomic<std::uint64_t> reusable_{0};
};

/// The receiving end.
class Receiver final : public TcpLink {
 public:
  Receiver(Peer& peer, const LinkShape& shape);

  bool sends() const override { return false; }
  tutti_link_result state(tutti_link_state* state) override;
  tutti_link_result flushed() override;
  tutti_link_result view(tutti_message* message);
  void release();
  tutti_link_result grant(void* target, std::uint64_t bytes, std::uint64_t fingerprint);

  // ---- From the connection.
  /// Where message `header` shall lie. False, with a sentence in `why`, where the sender may not send that.
  bool begin(const FrameHeader& header, std::byte** target, std::string* why);
  void end();
  /// Credit that the sender does not know of yet.
  std::uint64_t owed() const { return released_ - announced_; }
  /// The frame that tells it all.
  FrameHeader announce();

 private:
  tutti_quiesced give_up() override;
  struct Message {
    std::byte* data = nullptr;
    std::uint64_t bytes = 0;
    std::uint64_t fingerprint = 0;
    ByteBuffer buffer;     ///< empty where it landed in granted memory
    bool granted = false;  ///< data, bytes and fingerprint are a grant, and no message has begun here yet
  };
  Message& message(std::uint64_t sequence) { return messages_[sequence % messages_.size()]; }
  std::uint64_t arrived() const;
  bool still_of_use() const override { return released_ < arrived(); }

  std::vector<Message> messages_;  ///< a ring: those that came and are not released, and the grants ahead of them
  BufferPool pool_;
  std::uint64_t begun_ = 0;      ///< messages whose header has come
  std::uint64_t released_ = 0;   ///< messages given back
  std::uint64_t announced_ = 0;  ///< those of them that the sender was told of
  std::uint64_t granted_ = 0;    ///< one past the last message that was granted
  bool viewed_ = false;          ///< the oldest message was shown
  std::atomic<std::uint64_t> arrived_{0};
};

}  // namespace tutti::tcp
