#include "transports/shm/region.h"

namespace tutti::shm {

Status PeerRegion::map() {
  Result<Mapping> mapped = map_memory(file_->get(), file_offset_, bytes_, true);
  writable_ = mapped.ok();
  // A file that was passed for reading only is still good for pulling.
  if (!mapped.ok()) mapped = map_memory(file_->get(), file_offset_, bytes_, false);
  if (!mapped.ok()) return mapped.status();
  mapping_ = std::move(*mapped);
  base_ = static_cast<unsigned char*>(mapping_.data()) + file_offset_ % kPage;
  file_.reset();
  return {};
}

unsigned char* PeerRegion::at(std::uint64_t offset, std::uint64_t length, bool writable, std::string& why) {
  if (forgotten) {
    why = "it names a region that its owner has given up";
    return nullptr;
  }
  if (length > bytes_ || offset > bytes_ - length) {
    why = "it names bytes " + std::to_string(offset) + " to " + std::to_string(offset + length) + " of a region of " +
          std::to_string(bytes_);
    return nullptr;
  }
  if (base_ == nullptr) {
    if (const Status mapped = map(); !mapped.ok()) {
      why = mapped.error().message;
      return nullptr;
    }
  }
  if (writable && !writable_) {
    why = "it grants memory that can only be read";
    return nullptr;
  }
  return base_ + offset;
}

}  // namespace tutti::shm
