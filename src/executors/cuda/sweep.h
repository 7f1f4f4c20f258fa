// A fold by the threads of a block together: what src/reduction does on the host, with the same functors, to the same bits.
//
//     elements   before the first pack | packs of 16 bytes, a few of each thread under way | behind the last one
//
// A pack is loaded and stored at once, where all operands lie alike. Thread r of n takes every n-th. Loads and stores are
// weak: whoever calls orders them. No thread writes what another one reads or writes. Where a source is a destination, too,
// its thread reads each element before it writes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "src/cuda/device/group.h"
#include "src/reduction/elements.h"
#include "src/reduction/operators.h"

/// Before a loop: a kernel's compiler writes out its body once for each value, or once. Host compilers decide themselves.
#if defined(__CUDACC__) || defined(__CUDA__)
#define TUTTI_UNROLLED _Pragma("unroll")
#define TUTTI_ROLLED _Pragma("unroll 1")
#else
#define TUTTI_UNROLLED
#define TUTTI_ROLLED
#endif

namespace tutti {

/// One of the threads that sweep together.
struct Sweeper {
  std::uint32_t rank = 0;
  std::uint32_t size = 1;
};

/// What is swept, as FoldArguments says it, all in the user's format. A POD of borrowed pointers, in memory that the
/// threads reach.
struct SweepArguments {
  const std::byte* const* sources;
  std::byte* const* destinations;
  std::uint32_t source_count;
  std::uint32_t destination_count;
  std::uint64_t count;      ///< elements
  std::uint64_t divide_by;  ///< 0 or 1: nothing
  // Of a PreMulSum: sources [scaled_begin, scaled_end) are multiplied by the element at `scalar` first.
  std::uint32_t scaled_begin = 0;
  std::uint32_t scaled_end = 0;
  const std::byte* scalar = nullptr;
};

/// Bytes that a thread loads or stores at once.
inline constexpr std::uint64_t pack_bytes = 16;

/// An unsigned integer of T's size, of at most 8 bytes.
template <typename T>
using LongBitsOf = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
template <typename T>
using ShortBitsOf = std::conditional_t<sizeof(T) == 1, std::uint8_t, std::uint16_t>;
template <typename T>
using BitsOf = std::conditional_t<sizeof(T) <= 2, ShortBitsOf<T>, LongBitsOf<T>>;

/// A fold's result as it is written: an average's sum is divided, a NaN is the canonical one.
template <typename T, typename Op>
TUTTI_DEVICE Wide<T> finished(Wide<T> total, std::uint64_t divide_by) {
  if constexpr (std::is_same_v<Op, Sum>) {
    if (divide_by > 1) total = Divide{divide_by}(total);
  }
  return canonical(total);
}

/// An element times the one at `scalar`, rounded to the type: scale() of src/reduction.
template <typename T>
TUTTI_DEVICE T scaled(T element, const std::byte* scalar) {
  T by;
  __builtin_memcpy(&by, scalar, sizeof by);
  return narrow<T>(canonical(Prod()(widen(element), widen(by))));
}

/// Folds elements of type T by Op, of operators.h.
template <typename T, typename Op>
class BlockSweep {
 public:
  TUTTI_DEVICE BlockSweep(const SweepArguments& arguments, Sweeper self) : arguments_(arguments), self_(self) {}

  /// Folds this thread's share of all elements.
  TUTTI_DEVICE void run() const {
    // One source is copied, every bit, as on the host. Sums of one integer are the integer.
    if constexpr (sizeof(T) == pack_bytes) {
      if (arguments_.source_count == 1 && !is_scaled(0)) return copy_halves();
    } else if constexpr (!std::is_integral_v<T>) {
      if (arguments_.source_count == 1 && arguments_.divide_by <= 1 && !is_scaled(0))
        return BlockSweep<Bits, Sum>(arguments_, self_).run();
    }
    const std::uintptr_t first = reinterpret_cast<std::uintptr_t>(arguments_.destinations[0]);
    const std::uintptr_t differ = difference(first);
    const std::uint64_t before = (0 - first) % pack_bytes / sizeof(T);
    if (differ % pack_bytes != 0 || first % sizeof(T) != 0 || before >= arguments_.count) {
      return run_elements(0, arguments_.count, (differ | first) % sizeof(T) == 0);
    }
    const std::uint64_t packs = (arguments_.count - before) / kElements;
    run_elements(0, before, true);
    run_packs(before, packs);
    run_elements(before + packs * kElements, arguments_.count, true);
  }

 private:
  using Value = Wide<T>;
  using Bits = BitsOf<T>;
  static constexpr std::uint32_t kElements = pack_bytes / sizeof(T);
  /// What a pack is combined by: elements, or words where the operator takes bits.
  using PackValue = std::conditional_t<kIsBitwise<Op>, std::uint32_t, Value>;
  static constexpr std::uint32_t kPackValues = kIsBitwise<Op> ? 4 : kElements;
  /// Packs that a thread has under way: enough to hide memory's latency, few enough for the registers.
  static constexpr std::uint32_t kPacks = sizeof(T) >= 4 || kIsBitwise<Op> ? 4 : 2;

  struct alignas(pack_bytes) Pack {
    std::uint32_t words[4];
  };
  struct Values {
    PackValue of[kPackValues];
  };

  TUTTI_DEVICE bool is_scaled(std::uint32_t source) const {
    if constexpr (!std::is_same_v<Op, PreMulSum>) return false;
    return source >= arguments_.scaled_begin && source < arguments_.scaled_end;
  }
  /// An element of a source, as it is folded.
  TUTTI_DEVICE Value operand(std::uint32_t source, T element) const {
    return widen(is_scaled(source) ? scaled(element, arguments_.scalar) : element);
  }
  /// Of elements that no integer is as long as.
  TUTTI_DEVICE void copy_halves() const {
    SweepArguments halves = arguments_;
    halves.count *= 2;
    BlockSweep<std::uint64_t, Sum>(halves, self_).run();
  }

  /// The bits in which some operand's address differs from `first`.
  TUTTI_DEVICE std::uintptr_t difference(std::uintptr_t first) const {
    std::uintptr_t bits = 0;
    for (std::uint32_t s = 0; s < arguments_.source_count; ++s)
      bits |= reinterpret_cast<std::uintptr_t>(arguments_.sources[s]) ^ first;
    for (std::uint32_t d = 1; d < arguments_.destination_count; ++d)
      bits |= reinterpret_cast<std::uintptr_t>(arguments_.destinations[d]) ^ first;
    return bits;
  }

  // By shifts, so that a pack never leaves its registers for an array in memory.
  static constexpr std::uint32_t kWord = sizeof(std::uint32_t);
  static constexpr std::uint32_t kInWord = sizeof(T) < kWord ? kWord / sizeof(T) : 1;  ///< elements
  TUTTI_DEVICE static T element_of(const Pack& pack, std::uint32_t i) {
    if constexpr (sizeof(T) == pack_bytes) {
      return bits_as<T>(pack);
    } else if constexpr (sizeof(T) == 8) {
      return bits_as<T>(std::uint64_t{pack.words[2 * i + 1]} << 32 | pack.words[2 * i]);
    } else if constexpr (sizeof(T) == kWord) {
      return bits_as<T>(pack.words[i]);
    } else {
      return bits_as<T>(static_cast<Bits>(pack.words[i / kInWord] >> (i % kInWord * 8 * sizeof(T))));
    }
  }
  /// Into a pack of zeros.
  TUTTI_DEVICE static void put_element(Pack& pack, std::uint32_t i, T element) {
    if constexpr (sizeof(T) == pack_bytes) {
      pack = bits_as<Pack>(element);
    } else if constexpr (sizeof(T) == 8) {
      const std::uint64_t bits = bits_as<std::uint64_t>(element);
      pack.words[2 * i] = static_cast<std::uint32_t>(bits);
      pack.words[2 * i + 1] = static_cast<std::uint32_t>(bits >> 32);
    } else if constexpr (sizeof(T) == kWord) {
      pack.words[i] = bits_as<std::uint32_t>(element);
    } else {
      pack.words[i / kInWord] |= std::uint32_t{bits_as<Bits>(element)} << (i % kInWord * 8 * sizeof(T));
    }
  }
  TUTTI_DEVICE Values unpacked(std::uint32_t source, const Pack& pack) const {
    Values values;
    TUTTI_UNROLLED
    for (std::uint32_t i = 0; i < kPackValues; ++i) {
      if constexpr (kIsBitwise<Op>) {
        values.of[i] = pack.words[i];
      } else {
        values.of[i] = operand(source, element_of(pack, i));
      }
    }
    return values;
  }
  TUTTI_DEVICE static void combine(Values& total, const Values& next) {
    TUTTI_UNROLLED
    for (std::uint32_t i = 0; i < kPackValues; ++i) total.of[i] = Op()(total.of[i], next.of[i]);
  }
  /// Finished.
  TUTTI_DEVICE Pack packed(const Values& values) const {
    Pack pack{};
    TUTTI_UNROLLED
    for (std::uint32_t i = 0; i < kPackValues; ++i) {
      if constexpr (kIsBitwise<Op>) {
        pack.words[i] = values.of[i];
      } else {
        put_element(pack, i, narrow<T>(finished(values.of[i])));
      }
    }
    return pack;
  }
  TUTTI_DEVICE Value finished(Value total) const { return tutti::finished<T, Op>(total, arguments_.divide_by); }

  /// Packs [0, count) behind element `first`.
  TUTTI_DEVICE void run_packs(std::uint64_t first, std::uint64_t count) const {
    const std::uint64_t turn = std::uint64_t{self_.size} * kPacks;
    std::uint64_t pack = self_.rank;
    TUTTI_ROLLED
    for (; pack + (kPacks - 1) * std::uint64_t{self_.size} < count; pack += turn) run_some<kPacks>(first, pack);
    TUTTI_ROLLED
    for (; pack < count; pack += self_.size) run_some<1>(first, pack);
  }

  /// kCount packs, each self_.size behind the one before.
  template <std::uint32_t kCount>
  TUTTI_DEVICE void run_some(std::uint64_t first, std::uint64_t pack) const {
    const auto at = [&](std::uint32_t i) {
      return first * sizeof(T) + (pack + std::uint64_t{i} * self_.size) * pack_bytes;
    };
    const auto load = [&](std::uint32_t source, std::uint32_t i) {
      return *reinterpret_cast<const Pack*>(arguments_.sources[source] + at(i));
    };
    Values total[kCount];
    TUTTI_UNROLLED
    for (std::uint32_t i = 0; i < kCount; ++i) total[i] = unpacked(0, load(0, i));
    TUTTI_ROLLED
    for (std::uint32_t s = 1; s < arguments_.source_count; ++s) {
      Pack next[kCount];
      TUTTI_UNROLLED
      for (std::uint32_t i = 0; i < kCount; ++i) next[i] = load(s, i);
      TUTTI_UNROLLED
      for (std::uint32_t i = 0; i < kCount; ++i) combine(total[i], unpacked(s, next[i]));
    }
    TUTTI_UNROLLED
    for (std::uint32_t i = 0; i < kCount; ++i) {
      const Pack result = packed(total[i]);
      TUTTI_ROLLED
      for (std::uint32_t d = 0; d < arguments_.destination_count; ++d)
        *reinterpret_cast<Pack*>(arguments_.destinations[d] + at(i)) = result;
    }
  }

  /// aligned: every operand lies as its elements want to.
  TUTTI_DEVICE void run_elements(std::uint64_t begin, std::uint64_t end, bool aligned) const {
    TUTTI_ROLLED
    for (std::uint64_t e = begin + self_.rank; e < end; e += self_.size) {
      Value total = operand(0, load_element(arguments_.sources[0] + e * sizeof(T), aligned));
      TUTTI_ROLLED
      for (std::uint32_t s = 1; s < arguments_.source_count; ++s)
        total = Op()(total, operand(s, load_element(arguments_.sources[s] + e * sizeof(T), aligned)));
      const T element = narrow<T>(finished(total));
      TUTTI_ROLLED
      for (std::uint32_t d = 0; d < arguments_.destination_count; ++d)
        store_element(arguments_.destinations[d] + e * sizeof(T), element, aligned);
    }
  }

  // A processor may refuse to load what lies across its alignment. That goes byte by byte, as memcpy does where nothing is
  // known of the address.
  TUTTI_DEVICE static T load_element(const std::byte* from, bool aligned) {
    if (aligned) return *reinterpret_cast<const T*>(from);
    T element;
    __builtin_memcpy(&element, from, sizeof element);
    return element;
  }
  TUTTI_DEVICE static void store_element(std::byte* to, T element, bool aligned) {
    if (aligned) {
      *reinterpret_cast<T*>(to) = element;
    } else {
      __builtin_memcpy(to, &element, sizeof element);
    }
  }

  const SweepArguments& arguments_;
  const Sweeper self_;
};

/// Folds eight bytes of every source: as many elements of type T as they hold. Longer elements do not go by lines.
template <typename T, typename Op>
class WordFold {
 public:
  /// The next source's.
  TUTTI_DEVICE void add(std::uint64_t word) {
    const bool first = words_++ == 0;
    first_ = first ? word : first_;
    TUTTI_UNROLLED
    for (std::uint32_t i = 0; i < kElements; ++i) {
      const Wide<T> element = widen(bits_as<T>(static_cast<BitsOf<T>>(word >> (i * 8 * sizeof(T)))));
      total_[i] = first ? element : Op()(total_[i], element);
    }
  }
  TUTTI_DEVICE std::uint64_t result(std::uint64_t divide_by) const {
    if (words_ == 1 && divide_by <= 1) return first_;  // one source is copied, every bit
    std::uint64_t bits = 0;
    TUTTI_UNROLLED
    for (std::uint32_t i = 0; i < kElements; ++i) {
      const T element = narrow<T>(finished<T, Op>(total_[i], divide_by));
      bits |= std::uint64_t{bits_as<BitsOf<T>>(element)} << (i * 8 * sizeof(T));
    }
    return bits;
  }

 private:
  static_assert(sizeof(T) <= sizeof(std::uint64_t));
  static constexpr std::uint32_t kElements = sizeof(std::uint64_t) / sizeof(T);

  std::uint64_t first_ = 0;
  std::uint32_t words_ = 0;
  Wide<T> total_[kElements] = {};
};

/// A word's elements, scaled.
template <typename T>
TUTTI_DEVICE std::uint64_t scaled_word(std::uint64_t word, const std::byte* scalar) {
  std::uint64_t bits = 0;
  TUTTI_UNROLLED
  for (std::uint32_t shift = 0; shift < 64; shift += 8 * sizeof(T))
    bits |= std::uint64_t{bits_as<BitsOf<T>>(scaled(bits_as<T>(static_cast<BitsOf<T>>(word >> shift)), scalar))} << shift;
  return bits;
}

/// In the place of a WordFold of elements that no word holds: nobody asks for it.
class NoWordFold {
 public:
  TUTTI_DEVICE void add(std::uint64_t) {}
  TUTTI_DEVICE std::uint64_t result(std::uint64_t) const { return 0; }
};

/// Copies this thread's share of `count` bytes by the word. Sums of one integer are the integer.
template <typename Word>
TUTTI_DEVICE void copy_by(SweepArguments arguments, Sweeper self) {
  arguments.count /= sizeof(Word);
  BlockSweep<Word, Sum>(arguments, self).run();
}

/// Copies this thread's share of `count` bytes of the one source to every destination, bits unchanged: by the longest word
/// that divides all addresses and the count.
TUTTI_DEVICE void copy_in_block(const SweepArguments& arguments, Sweeper self) {
  std::uintptr_t all = reinterpret_cast<std::uintptr_t>(arguments.sources[0]) | arguments.count;
  for (std::uint32_t d = 0; d < arguments.destination_count; ++d)
    all |= reinterpret_cast<std::uintptr_t>(arguments.destinations[d]);
  if (all % sizeof(std::uint64_t) == 0) {
    copy_by<std::uint64_t>(arguments, self);
  } else if (all % sizeof(std::uint32_t) == 0) {
    copy_by<std::uint32_t>(arguments, self);
  } else if (all % sizeof(std::uint16_t) == 0) {
    copy_by<std::uint16_t>(arguments, self);
  } else {
    copy_by<std::uint8_t>(arguments, self);
  }
}

}  // namespace tutti
