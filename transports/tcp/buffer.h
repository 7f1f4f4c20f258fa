// Memory for messages under way: aligned buffers that are kept for the next message, and a queue that does not allocate
// once it has grown.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

namespace tutti::tcp {

/// Bytes at a 64-byte boundary, freed with their owner. Empty where there was no memory. Movable.
class ByteBuffer {
 public:
  ByteBuffer() = default;
  explicit ByteBuffer(std::size_t bytes) {
    const std::size_t rounded = (bytes + 63) / 64 * 64;
    data_.reset(static_cast<std::byte*>(std::aligned_alloc(64, rounded)));
    capacity_ = data_ ? rounded : 0;
  }
  std::byte* data() const { return data_.get(); }
  std::size_t capacity() const { return capacity_; }
  explicit operator bool() const { return data_ != nullptr; }

 private:
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  std::unique_ptr<std::byte, Free> data_;
  std::size_t capacity_ = 0;
};

/// Keeps buffers for reuse, the last given first, as it is the likeliest to be in the cache. Not thread safe.
class BufferPool {
 public:
  /// longest: buffers above that are not kept. count: nor are more than these.
  BufferPool(std::uint64_t longest, std::size_t count) : longest_(longest), count_(count) { free_.reserve(count); }

  /// At least `bytes` (of unspecified content); empty where there is no memory.
  ByteBuffer take(std::uint64_t bytes) {
    if (!free_.empty()) {
      ByteBuffer last = std::move(free_.back());
      free_.pop_back();
      if (last.capacity() >= bytes) return last;
    }
    if (bytes > longest_) return ByteBuffer(static_cast<std::size_t>(bytes));
    // The next power of two, so that lengths that vary a little do not allocate again and again.
    return ByteBuffer(static_cast<std::size_t>(std::bit_ceil(bytes < 256 ? std::uint64_t{256} : bytes)));
  }
  void give(ByteBuffer buffer) {
    if (buffer && buffer.capacity() <= 2 * longest_ + 256 && free_.size() < count_) free_.push_back(std::move(buffer));
  }

 private:
  std::uint64_t longest_;
  std::size_t count_;
  std::vector<ByteBuffer> free_;
};

/// A double-ended queue over one array that grows by doubling and never shrinks. Not thread safe.
template <typename T>
class RingBuffer {
 public:
  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  T& operator[](std::size_t i) { return items_[(first_ + i) & (items_.size() - 1)]; }
  T& front() { return (*this)[0]; }
  void push_back(T item) {
    if (size_ == items_.size()) grow();
    ++size_;
    (*this)[size_ - 1] = std::move(item);
  }
  void push_front(T item) {
    if (size_ == items_.size()) grow();
    first_ = (first_ + items_.size() - 1) & (items_.size() - 1);
    ++size_;
    front() = std::move(item);
  }
  T pop_front() {
    T item = std::move(front());
    front() = T{};
    first_ = (first_ + 1) & (items_.size() - 1);
    --size_;
    return item;
  }
  /// Removes the items from the n-th on that `drop` says to, in order.
  template <typename Drop>
  void remove_if(std::size_t n, Drop drop) {
    std::size_t kept = n;
    for (std::size_t i = n; i < size_; ++i) {
      if (drop((*this)[i])) continue;
      if (kept != i) (*this)[kept] = std::move((*this)[i]);
      ++kept;
    }
    for (std::size_t i = kept; i < size_; ++i) (*this)[i] = T{};
    size_ = kept;
  }

 private:
  void grow() {
    std::vector<T> larger(items_.empty() ? 16 : items_.size() * 2);
    for (std::size_t i = 0; i < size_; ++i) larger[i] = std::move((*this)[i]);
    items_ = std::move(larger);
    first_ = 0;
  }
  std::vector<T> items_;
  std::size_t first_ = 0;
  std::size_t size_ = 0;
};

}  // namespace tutti::tcp
