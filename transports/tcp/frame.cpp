#include "transports/tcp/frame.h"

#include <algorithm>
#include <cstring>

#include "src/base/copy.h"

namespace tutti::tcp {

const char* header_fault(const FrameHeader& header) {
  if (header.mark != kFrameMark) return "a header without its mark";
  if (header.kind < static_cast<std::uint16_t>(FrameKind::kData) ||
      header.kind > static_cast<std::uint16_t>(FrameKind::kAttach)) {
    return "a frame of an unknown kind";
  }
  const bool has_ends = header.is(FrameKind::kOpen) || header.is(FrameKind::kClose);
  if (header.flags > (has_ends ? kBySender : 0)) return "a frame with unknown flags";
  if (header.bytes > kMaxMessage) return "a message longer than a message may be";
  return nullptr;
}

std::byte* FrameReader::drop_area() {
  if (drop_.empty()) drop_.resize(kDrop);
  return drop_.data();
}

int FrameReader::spans(iovec (&pieces)[2]) {
  if (payload_left_ == 0) {
    // Less than a header is left over: bring it to the front, so that there is room behind it.
    if (begin_ > 0) {
      std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
      end_ -= begin_;
      begin_ = 0;
    }
    pieces[0] = {buffer_.data() + end_, std::min(ahead_, buffer_.size() - end_)};
    return 1;
  }
  begin_ = end_ = 0;  // a payload is under way only when all that was buffered has gone into it
  if (target_ == nullptr && payload_left_ > kDrop) {
    pieces[0] = {drop_area(), kDrop};
    return 1;
  }
  pieces[0] = {target_ == nullptr ? drop_area() : target_, static_cast<std::size_t>(payload_left_)};
  pieces[1] = {buffer_.data(), ahead_};
  return 2;
}

bool FrameReader::consume(std::size_t n) {
  if (payload_left_ > 0) {
    const std::size_t taken = static_cast<std::size_t>(std::min<std::uint64_t>(n, payload_left_));
    payload_left_ -= taken;
    if (target_ != nullptr) target_ += taken;
    n -= taken;
    if (payload_left_ > 0) return true;
    if (!sink_.message_ends(current_)) return false;
  }
  end_ += n;
  return parse();
}

bool FrameReader::parse() {
  while (end_ - begin_ >= sizeof(FrameHeader)) {
    if (!take_header()) return false;
    if (payload_left_ == 0) continue;
    take_buffered_payload();
    if (payload_left_ > 0) return true;
    if (!sink_.message_ends(current_)) return false;
  }
  return true;
}

bool FrameReader::take_header() {
  std::memcpy(&current_, buffer_.data() + begin_, sizeof current_);
  begin_ += sizeof current_;
  if (const char* fault = header_fault(current_)) {
    sink_.malformed(current_, fault);
    return false;
  }
  if (!current_.is(FrameKind::kData)) return sink_.control(current_);
  target_ = nullptr;
  if (!sink_.message_begins(current_, &target_)) return false;
  payload_left_ = current_.bytes;
  ahead_ = current_.bytes >= kLong ? kShortAhead : kBuffer;
  return payload_left_ > 0 || sink_.message_ends(current_);
}

void FrameReader::take_buffered_payload() {
  const std::size_t taken = static_cast<std::size_t>(std::min<std::uint64_t>(end_ - begin_, payload_left_));
  if (target_ != nullptr) {
    copy_memory(target_, buffer_.data() + begin_, taken);
    target_ += taken;
  }
  begin_ += taken;
  payload_left_ -= taken;
}

void FrameReader::drop_current(std::uint64_t channel) {
  if (payload_left_ > 0 && current_.channel == channel) target_ = nullptr;
}

}  // namespace tutti::tcp
