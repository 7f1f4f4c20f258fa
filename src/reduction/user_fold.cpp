#include "src/reduction/user_fold.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace tutti {
namespace {

thread_local const UserFold* current = nullptr;

/// Bytes that are folded at once: some of the nearest cache.
constexpr std::uint64_t kPieceBytes = 8192;

/// Folds piece by piece in memory of its own, since a destination may be a source. What is misaligned, as a message may be,
/// is copied there too.
class Folder {
 public:
  Folder(const UserFold& operation, const FoldArguments& arguments)
      : operation_(operation),
        arguments_(arguments),
        piece_(kPieceBytes / operation.element_bytes * operation.element_bytes) {}

  void run() {
    for (std::uint64_t at = 0; at < arguments_.count; at += piece_) {
      const std::uint64_t bytes = std::min(piece_, arguments_.count - at);
      std::memcpy(total_.data(), source(arguments_.source_count - 1, at), bytes);
      for (std::uint32_t s = arguments_.source_count - 1; s-- > 0;)
        operation_.fold(operation_.ctx, aligned(source(s, at), bytes), total_.data(), bytes / operation_.element_bytes);
      for (std::uint32_t d = 0; d < arguments_.destination_count; ++d)
        std::memcpy(static_cast<std::byte*>(arguments_.destinations[d].data) + at, total_.data(), bytes);
    }
  }

 private:
  const std::byte* source(std::uint32_t s, std::uint64_t at) const {
    return static_cast<const std::byte*>(arguments_.sources[s].data) + at;
  }
  const std::byte* aligned(const std::byte* from, std::uint64_t bytes) {
    if (reinterpret_cast<std::uintptr_t>(from) % alignof(std::max_align_t) == 0) return from;
    std::memcpy(copy_.data(), from, bytes);
    return copy_.data();
  }

  const UserFold& operation_;
  const FoldArguments& arguments_;
  const std::uint64_t piece_;
  alignas(std::max_align_t) std::array<std::byte, kPieceBytes> total_;
  alignas(std::max_align_t) std::array<std::byte, kPieceBytes> copy_;
};

void fold(const FoldArguments& arguments) { Folder(*current, arguments).run(); }

}  // namespace

FoldFunction find_user_fold() { return &fold; }

UserFoldScope::UserFoldScope(const UserFold* fold) : before_(current) { current = fold; }
UserFoldScope::~UserFoldScope() { current = before_; }

}  // namespace tutti
