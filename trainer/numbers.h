// Arrays of numbers in huge pages where the system has some to give: what is read and written from end to end each step,
// or with a page between its rows as matrices are, then needs few translations of addresses.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <limits>
#include <new>
#include <vector>

namespace tutti::trainer {

/// Blocks of at least a huge page begin at one and ask for them; others are as std::allocator's. Stateless.
template <typename T>
struct HugePages {
  using value_type = T;
  static constexpr std::size_t page = std::size_t{2} << 20;  ///< what Linux takes on x86-64, and on Arm with small pages

  HugePages() = default;
  template <typename U>
  HugePages(const HugePages<U>&) noexcept {}

  /// Throws std::bad_alloc.
  T* allocate(std::size_t count) {
    if (count > std::numeric_limits<std::size_t>::max() / sizeof(T) - page) throw std::bad_alloc();
    const std::size_t bytes = count * sizeof(T);
    const bool large = bytes >= page;
    const std::size_t whole = (bytes + page - 1) / page * page;
    void* const memory = large ? std::aligned_alloc(page, whole) : std::malloc(bytes);
    if (memory == nullptr) throw std::bad_alloc();
    if (large) static_cast<void>(::madvise(memory, whole, MADV_HUGEPAGE));  // small pages do as well
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, std::size_t) noexcept { std::free(memory); }

  friend bool operator==(const HugePages&, const HugePages&) { return true; }
};

template <typename Scalar>
using Numbers = std::vector<Scalar, HugePages<Scalar>>;

}  // namespace tutti::trainer
