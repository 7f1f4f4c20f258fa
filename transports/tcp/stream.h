// One authenticated connection to a peer: frames out, frames in, and the sentence when it ends.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/unique_fd.h"
#include "transports/tcp/buffer.h"
#include "transports/tcp/frame.h"
#include "transports/tcp/link.h"
#include "transports/tcp/watcher.h"

namespace tutti::tcp {

class Peer;

/// A frame on its way out.
struct OutFrame {
  FrameHeader header;
  const std::byte* payload = nullptr;  ///< the caller's, or staging's; begins with the payload's byte `payload_from`
  std::uint64_t payload_from = 0;
  ByteBuffer staging;        ///< room of a committed message, or what is left of a message that was given up
  Sender* sender = nullptr;  ///< to be told when the frame is gone; null where nobody waits for that

  std::uint64_t size() const { return sizeof(FrameHeader) + header.payload(); }
};

/// Everything that travels on one socket. It lives as long as its peer does, broken or not. One thread at a time.
class Stream final : public Watcher, private FrameSink {
 public:
  /// remote: the other end's address, for sentences.
  Stream(Peer& peer, std::uint32_t index, UniqueFd socket, std::string remote);

  /// epoll says that something can be done.
  void ready(std::uint32_t events) override;
  /// Takes what has arrived, as far as one turn goes; returns whether there was anything.
  bool read();
  /// Sends what is queued, as far as the kernel takes it, and all credit with it; whether any byte went.
  bool write();
  /// Queues a frame, and sends it at once where nothing waits before it.
  void send(OutFrame frame);
  /// Notes that `receiver` has credit to tell.
  void owe(Receiver& receiver);
  /// Tells all credit that is owed.
  void announce();
  bool owes() const { return !owing_.empty(); }

  /// Closes the sending end's part: its own memory is sent on, the caller's is not touched any more, what has not begun
  /// is dropped. False where the connection had to be cut for that.
  bool forget(Sender& sender);
  /// Closes the receiving end's part: what still comes for it is dropped.
  void forget(Receiver& receiver);
  /// The peer is known to be gone: takes what has arrived, then breaks.
  void finish(const std::string& sentence);
  /// Says that an end of a link is given up.
  void say_closed(std::uint64_t channel, bool by_sender);
  /// Says that this endpoint leaves.
  void say_goodbye();
  /// What the peer can only get from here waits for nobody, or for a sender whose user sees it out, and what waits behind
  /// it. That an end was closed may wait: it is cleaned up after by then.
  bool settled();
  /// Everything is with the kernel.
  bool idle() const { return out_.empty() || broken_; }
  /// Everything is with the peer's kernel, or can never be.
  bool delivered() const;
  /// Throws away what has arrived, for the time after goodbye.
  void drain();

  bool broken() const { return broken_; }
  int fd() const { return socket_.get(); }
  std::uint32_t index() const { return index_; }
  const std::string& remote() const { return remote_; }
  std::uint64_t watch = 0;    ///< its number in the endpoint's epoll set, where it is in it
  std::uint32_t watched = 0;  ///< the events that the endpoint has asked epoll for; 0: it is not in the set

 private:
  static constexpr int kPieces = 64;  ///< of one sendmsg
  static constexpr int kTurns = 8;    ///< reads of one turn
  static constexpr std::uint64_t kLongestRescue = 64u << 20;

  bool message_begins(const FrameHeader& header, std::byte** target) override;
  bool message_ends(const FrameHeader& header) override;
  bool control(const FrameHeader& header) override;
  void malformed(const FrameHeader& header, const char* what) override;

  /// Reads once. 1: something came, and there may be more; 0: nothing more now; -1: broken.
  int read_once(bool* moved);
  bool renew_credit(const FrameHeader& credit);
  void queue_credit();
  int gather(iovec* pieces, std::uint64_t* total);
  void retire(std::uint64_t sent);
  void output_failed(int number);
  bool credit(const FrameHeader& header);
  bool open(const FrameHeader& header);
  bool close(const FrameHeader& header);
  bool violated(const FrameHeader& header, const std::string& what);
  void end(const std::string& sentence, bool orderly);
  bool rescue(OutFrame& frame);

  Peer& peer_;
  std::uint32_t index_;
  UniqueFd socket_;
  std::string remote_;
  FrameReader reader_{*this};
  RingBuffer<OutFrame> out_;
  std::uint64_t front_sent_ = 0;  ///< bytes of the first queued frame that are gone
  std::vector<Receiver*> owing_;
  bool broken_ = false;
  bool nearby_ = false;  ///< both ends are on this machine: what the kernel has sent is with the peer
};

}  // namespace tutti::tcp
