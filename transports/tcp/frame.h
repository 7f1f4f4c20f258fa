// What travels on a connection once its handshake is done: frames, each a fixed header and, for data, a payload.
//
//     | kind 2 | flags 2 | mark 4 | channel 8 | sequence 8 | bytes 8 | fingerprint 8 |  payload: `bytes`, data only |
//
//     kind      sequence                   bytes              sent by
//     data      number of the message      payload's length   the sending end of a link
//     credit    messages that may be sent  -                  the receiving end: cumulative, so that none is ever lost
//     open      messages that may be sent  longest by slot    either end (flag: by the sender), when it opens
//     close     -                          -                  either end (flag: by the sender), when it is given up
//     goodbye   -                          -                  an endpoint that closes: its silence is not a death
//     attach    sockets of this pair       -                  first, both ways: `channel` is the socket's index
//
// Little endian throughout. docs/ has the whole protocol; a frame that breaks it breaks the connection, with a sentence.
#pragma once

#include <sys/uio.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

namespace tutti::tcp {

enum class FrameKind : std::uint16_t { kData = 1, kCredit = 2, kOpen = 3, kClose = 4, kGoodbye = 5, kAttach = 6 };

inline constexpr std::uint32_t kFrameMark = 0x74757469;  ///< in every header, so that a lost boundary is noticed at once
inline constexpr std::uint16_t kBySender = 1;            ///< flag of open and close: of the sending end
inline constexpr std::uint64_t kMaxMessage = std::uint64_t{1} << 40;  ///< longest message, bytes

/// One header as it lies on the wire.
struct FrameHeader {
  std::uint16_t kind = 0;
  std::uint16_t flags = 0;
  std::uint32_t mark = kFrameMark;
  std::uint64_t channel = 0;
  std::uint64_t sequence = 0;
  std::uint64_t bytes = 0;
  std::uint64_t fingerprint = 0;

  bool is(FrameKind which) const { return kind == static_cast<std::uint16_t>(which); }
  /// Bytes that follow this header.
  std::uint64_t payload() const { return is(FrameKind::kData) ? bytes : 0; }
};
static_assert(sizeof(FrameHeader) == 40 && std::is_trivially_copyable_v<FrameHeader>);
static_assert(std::endian::native == std::endian::little, "headers are sent as they lie in memory, little endian");

/// A header without payload.
inline FrameHeader control_frame(FrameKind kind, std::uint64_t channel, std::uint64_t sequence = 0,
                                 std::uint64_t bytes = 0) {
  FrameHeader header;
  header.kind = static_cast<std::uint16_t>(kind);
  header.channel = channel;
  header.sequence = sequence;
  header.bytes = bytes;
  return header;
}

/// What is wrong with a header by itself, as half a sentence, or null where nothing is.
const char* header_fault(const FrameHeader& header);

/// Who takes the frames that a FrameReader finds. A false answer ends the stream; whoever answers it knows why.
class FrameSink {
 public:
  virtual ~FrameSink() = default;
  /// A message begins: sets *target to where its bytes shall lie (valid until message_ends), null to drop them.
  virtual bool message_begins(const FrameHeader& header, std::byte** target) = 0;
  /// All bytes of that message are there.
  virtual bool message_ends(const FrameHeader& header) = 0;
  /// Any other frame.
  virtual bool control(const FrameHeader& header) = 0;
  /// What came is no frame; `what` is half a sentence.
  virtual void malformed(const FrameHeader& header, const char* what) = 0;
};

/// Cuts a byte stream into frames. It does no I/O: ask it where the next bytes shall go, put them there, tell it how many.
/// Small frames are read ahead in bulk; long payloads go straight to their target, in one call with the next header.
/// Not thread safe.
class FrameReader {
 public:
  explicit FrameReader(FrameSink& sink) : sink_(sink) {}
  FrameReader(const FrameReader&) = delete;
  FrameReader& operator=(const FrameReader&) = delete;

  /// Where to read to next: one or two pieces, to be filled in order. Returns their number.
  int spans(iovec (&pieces)[2]);
  /// Takes the first n bytes of those pieces. False: the stream cannot go on.
  bool consume(std::size_t n);
  /// Drops the rest of the message under way if it is `channel`'s: nothing is written to its target any more.
  void drop_current(std::uint64_t channel);
  /// Whether the stream stands between two frames.
  bool at_boundary() const { return payload_left_ == 0 && begin_ == end_; }

 private:
  static constexpr std::size_t kBuffer = 64 * 1024;     ///< read ahead while messages are small
  static constexpr std::size_t kShortAhead = 4 * 1024;  ///< and while they are long: what is read ahead is copied twice
  static constexpr std::uint64_t kLong = 48 * 1024;
  static constexpr std::size_t kDrop = 64 * 1024;

  bool parse();
  bool take_header();
  void take_buffered_payload();
  std::byte* drop_area();

  FrameSink& sink_;
  std::vector<std::byte> buffer_ = std::vector<std::byte>(kBuffer);
  std::size_t begin_ = 0, end_ = 0;  ///< what is in the buffer and not parsed yet
  std::size_t ahead_ = kBuffer;
  FrameHeader current_;
  std::uint64_t payload_left_ = 0;
  std::byte* target_ = nullptr;  ///< of the rest of the payload, null: dropped
  std::vector<std::byte> drop_;  ///< allocated when something is dropped for the first time
};

}  // namespace tutti::tcp
