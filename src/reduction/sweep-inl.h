// The loops: one sweep over memory that folds any number of sources into any number of destinations. Included once per
// instruction set (HWY_TARGET), by each fold_*.cpp.
//
// A sweep works on Values (a vector, or a few) and keeps several of them in registers while it goes through the sources,
// so that the operands cross memory once. What is left over at the end is one more Value that overlaps the last whole one:
// it is folded before anything is written and stored last, so that folding in place stays right.

#if defined(TUTTI_REDUCTION_SWEEP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TUTTI_REDUCTION_SWEEP_INL_H_
#undef TUTTI_REDUCTION_SWEEP_INL_H_
#else
#define TUTTI_REDUCTION_SWEEP_INL_H_
#endif

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "src/reduction/fold_tables.h"
#include "src/reduction/reduction.h"
#include "src/reduction/scalar_lanes.h"

#if HWY_TARGET == HWY_SCALAR
#include "src/reduction/scalar_lanes-inl.h"
#else
#include "src/reduction/lanes-inl.h"
#endif

HWY_BEFORE_NAMESPACE();
namespace tutti {
namespace HWY_NAMESPACE {

/// Values that a sweep takes through the operands at once: a cache line of each. More at once writes several lines of one
/// destination before it comes to the next, which costs a third of the speed with two destinations (measured on Zen 3).
template <class Lanes>
inline constexpr std::size_t kGroup =
    Lanes::kCount == 1 ? 4 : std::max<std::size_t>(1, kLine / (Lanes::kCount * sizeof(typename Lanes::Element)));

/// What a fold that is not divided is finished with. Canonical, as all dividers' numbers are but those that stores make so.
template <class Lanes>
struct NoDivider {
  explicit NoDivider(std::uint64_t) {}
  HWY_INLINE typename Lanes::Value operator()(typename Lanes::Value value) const { return Lanes::canonicalize(value); }
};

HWY_INLINE const std::uint8_t* bytes_of(const void* data) { return static_cast<const std::uint8_t*>(data); }
HWY_INLINE std::uint8_t* bytes_of(void* data) { return static_cast<std::uint8_t*>(data); }

/// The general sweep: any operands. Everything it needs in its loops is passed by value: what
/// lay in memory the compiler would read again after every store.
template <class Lanes, class Op, class Divider>
class Sweep {
 public:
  explicit Sweep(const FoldArguments& arguments)
      : operands_{arguments.sources, arguments.destinations, arguments.source_count, arguments.destination_count, 0},
        divide_(arguments.divide_by) {}

  /// Elements [begin, end), which hold at least one whole Value. Destinations whose bit is set in `streams` (of the first
  /// 64) are aligned, from `begin` on, for streaming stores.
  void run(std::uint64_t begin, std::uint64_t end, std::uint64_t streams) const {
    Operands operands = operands_;
    operands.streams = streams;
    const std::uint64_t left_over = (end - begin) % Lanes::kCount;
    const std::uint64_t behind = end - Lanes::kCount;
    const Value last = left_over != 0 ? folded(operands, divide_, behind) : Value{};
    std::uint64_t at = begin;
    if (kSpecial && operands.destination_count == 1) {
      at = lines<kSpecial ? 1 : 0>(operands, divide_, at, end);
    } else if (kSpecialTwo && operands.destination_count == 2) {
      at = lines<kSpecialTwo ? 2 : 0>(operands, divide_, at, end);
    } else {
      at = lines<0>(operands, divide_, at, end);
    }
    run_values(operands, at, end);
    if (left_over != 0) put_everywhere(operands, behind, last);
  }

  /// All of `count` elements, at least one whole Value: without the effort that only long sweeps repay.
  void run_short(std::uint64_t count) const {
    const std::uint64_t behind = count - Lanes::kCount;
    const Value last = folded(operands_, divide_, behind);
    run_values(operands_, 0, count);
    put_everywhere(operands_, behind, last);
  }

  /// The first `count` <= Lanes::kCount elements.
  void run_partial(std::size_t count) const {
    Value total = Lanes::template prepare<Op>(get_first(operands_.sources[0], count));
    for (std::uint32_t s = 1; s < operands_.source_count; ++s) {
      total = Lanes::template combine<Op>(total, Lanes::template prepare<Op>(get_first(operands_.sources[s], count)));
    }
    total = finished(divide_, total);
    for (std::uint32_t d = 0; d < operands_.destination_count; ++d) put_first(operands_.destinations[d], total, count);
  }

 private:
  using Element = typename Lanes::Element;
  using Value = typename Lanes::Value;
  static constexpr std::size_t kBytes = sizeof(Element);

  struct Operands {
    const FoldSource* sources;
    const FoldDestination* destinations;
    std::uint32_t source_count;
    std::uint32_t destination_count;
    std::uint64_t streams;
  };

  /// Whether a loop of its own for one destination is worth its code, and another one for two: not without vectors, nor for
  /// two where division dominates.
  static constexpr bool kSpecial = !std::is_same_v<Lanes, ScalarLanes<Element>>;
  static constexpr bool kSpecialTwo = kSpecial && std::is_same_v<Divider, NoDivider<Lanes>>;

  static HWY_INLINE Value get(const FoldSource& source, std::uint64_t at) {
    return Lanes::load(bytes_of(source.data) + at * kBytes);
  }
  static HWY_INLINE void put(const FoldDestination& destination, std::uint64_t at, Value value) {
    Lanes::store(bytes_of(destination.data) + at * kBytes, value);
  }
  static HWY_INLINE void put_streaming(const FoldDestination& destination, std::uint64_t at, Value value) {
    Lanes::stream(bytes_of(destination.data) + at * kBytes, value);
  }
  static HWY_INLINE Value get_first(const FoldSource& source, std::size_t count) {
    return Lanes::load_first(bytes_of(source.data), count);
  }
  static HWY_INLINE void put_first(const FoldDestination& destination, Value value, std::size_t count) {
    Lanes::store_first(bytes_of(destination.data), value, count);
  }
  static HWY_INLINE void put_everywhere(Operands operands, std::uint64_t at, Value value) {
    for (std::uint32_t d = 0; d < operands.destination_count; ++d) put(operands.destinations[d], at, value);
  }

  /// Value by Value, as many as are whole.
  HWY_INLINE void run_values(Operands operands, std::uint64_t at, std::uint64_t end) const {
    const Divider divide = divide_;
    for (; end - at >= Lanes::kCount; at += Lanes::kCount) put_everywhere(operands, at, folded(operands, divide, at));
  }

  static HWY_INLINE Value finished(Divider divide, Value total) { return divide(Lanes::template restore<Op>(total)); }

  static HWY_INLINE Value folded(Operands operands, Divider divide, std::uint64_t at) {
    Value total = Lanes::template prepare<Op>(get(operands.sources[0], at));
    for (std::uint32_t s = 1; s < operands.source_count; ++s) {
      total = Lanes::template combine<Op>(total, Lanes::template prepare<Op>(get(operands.sources[s], at)));
    }
    return finished(divide, total);
  }

  /// The whole cache lines of [at, end), into kDestinations destinations (0: as many as there are). Returns their end.
  template <std::uint32_t kDestinations>
  static HWY_INLINE std::uint64_t lines(Operands operands, Divider divide, std::uint64_t at, std::uint64_t end) {
    // Where there is but one destination two Values at least, so that one is loaded while the other is finished.
    constexpr std::size_t kValues = kDestinations == 1 ? std::max<std::size_t>(2, kGroup<Lanes>) : kGroup<Lanes>;
    constexpr std::size_t kStep = Lanes::kCount * kValues;
    const FoldDestination first = operands.destinations[0];
    const FoldDestination second = operands.destinations[kDestinations == 2 ? 1 : 0];
    for (; end - at >= kStep; at += kStep) {
      line<kDestinations>(operands, first, second, divide, at, std::make_index_sequence<kValues>());
    }
    return at;
  }

  /// sizeof...(I) Values from `at` on. The indices are constants, so that the arrays live in registers.
  template <std::uint32_t kDestinations, std::size_t... I>
  static HWY_INLINE void line(Operands operands, FoldDestination first, FoldDestination second, Divider divide,
                              std::uint64_t at, std::index_sequence<I...>) {
    Value total[] = {Lanes::template prepare<Op>(get(operands.sources[0], at + I * Lanes::kCount))...};
    for (std::uint32_t s = 1; s < operands.source_count; ++s) {
      const FoldSource source = operands.sources[s];
      const Value next[] = {Lanes::template prepare<Op>(get(source, at + I * Lanes::kCount))...};
      ((total[I] = Lanes::template combine<Op>(total[I], next[I])), ...);
    }
    ((total[I] = finished(divide, total[I])), ...);
    if constexpr (kDestinations == 0) {
      for (std::uint32_t d = 0; d < operands.destination_count; ++d) {
        put_line(operands.destinations[d], d < 64 && ((operands.streams >> d) & 1) != 0, at, total,
                 std::index_sequence<I...>());
      }
    } else {
      put_line(first, (operands.streams & 1) != 0, at, total, std::index_sequence<I...>());
      if constexpr (kDestinations == 2) {
        put_line(second, (operands.streams & 2) != 0, at, total, std::index_sequence<I...>());
      }
    }
  }

  template <std::size_t... I>
  static HWY_INLINE void put_line(FoldDestination destination, bool streaming, std::uint64_t at, const Value* total,
                                  std::index_sequence<I...>) {
    if (streaming) {
      (put_streaming(destination, at + I * Lanes::kCount, total[I]), ...);
    } else {
      (put(destination, at + I * Lanes::kCount, total[I]), ...);
    }
  }

  const Operands operands_;
  const Divider divide_;
};

/// How far ahead of its use a source is fetched, and in folds of how many bytes at least: shorter ones are mostly of what
/// is in the first cache, or pieces of a longer one (kPieceBytes), where it was not tried. Processors fetch ahead
/// themselves, but not enough where whole lines are loaded at once: Zen 4 takes .5 to .7 of the time with this where
/// sources come from the shared cache, and .9 from memory; 64 to 384 bytes do the same there.
inline constexpr std::uint64_t kFetchAhead = 192;
inline constexpr std::uint64_t kLeastFetched = 16 * 1024;

/// The commonest shape: two sources and one destination. The pointers and the divider are passed
/// by value, so that the compiler need not read them again after every store.
template <class Lanes, class Op, class Divider>
struct PairSweep {
  using Value = typename Lanes::Value;
  static constexpr std::size_t kBytes = sizeof(typename Lanes::Element);
  static constexpr std::size_t kStride = Lanes::kCount * kBytes;

  static HWY_INLINE Value finished(Divider divide, Value a, Value b) {
    const Value total = Lanes::template combine<Op>(Lanes::template prepare<Op>(a), Lanes::template prepare<Op>(b));
    return divide(Lanes::template restore<Op>(total));
  }
  static HWY_INLINE Value folded(Divider divide, const std::uint8_t* a, const std::uint8_t* b) {
    return finished(divide, Lanes::load(a), Lanes::load(b));
  }
  template <bool kStreams, std::size_t... I>
  static HWY_INLINE void group(Divider divide, const std::uint8_t* a, const std::uint8_t* b, std::uint8_t* to,
                               std::index_sequence<I...>) {
    const Value total[] = {folded(divide, a + I * kStride, b + I * kStride)...};
    if constexpr (kStreams) {
      (Lanes::stream(to + I * kStride, total[I]), ...);
    } else {
      (Lanes::store(to + I * kStride, total[I]), ...);
    }
  }

  /// At least one whole Value. If kStreams, `to` is the beginning of a cache line.
  template <bool kStreams>
  static void run(Divider divide, const std::uint8_t* a, const std::uint8_t* b, std::uint8_t* to, std::uint64_t count) {
    constexpr auto kIndices = std::make_index_sequence<kGroup<Lanes>>();
    constexpr std::uint64_t kStep = kStride * kGroup<Lanes>;
    const std::uint64_t end = count * kBytes;
    const std::uint64_t left_over = end % kStride;
    const std::uint64_t behind = end - kStride;
    const Value last = left_over != 0 ? folded(divide, a + behind, b + behind) : Value{};
    std::uint64_t at = 0;
    if (Lanes::kCount > 1 && (kStreams || end >= kLeastFetched)) {  // not for single elements: it would be most of the work
      // Nothing behind a source's end is fetched: that may be another rank's to write.
      for (; end - at >= kStep + kFetchAhead; at += kStep) {
        hwy::Prefetch(a + at + kFetchAhead);
        hwy::Prefetch(b + at + kFetchAhead);
        group<kStreams>(divide, a + at, b + at, to + at, kIndices);
      }
    }
    for (; end - at >= kStep; at += kStep) group<kStreams>(divide, a + at, b + at, to + at, kIndices);
    for (; end - at >= kStride; at += kStride) Lanes::store(to + at, folded(divide, a + at, b + at));
    if (left_over != 0) Lanes::store(to + behind, last);
  }

  /// Fewer elements than a Value's.
  static HWY_INLINE void run_partial(Divider divide, const std::uint8_t* a, const std::uint8_t* b, std::uint8_t* to,
                                     std::size_t count) {
    Lanes::store_first(to, finished(divide, Lanes::load_first(a, count), Lanes::load_first(b, count)), count);
  }
};

/// Elements before the first cache line of the first streaming destination. None where its elements do not meet lines.
template <typename T>
std::uint64_t elements_before_line(const FoldArguments& arguments) {
  for (std::uint32_t d = 0; d < arguments.destination_count; ++d) {
    if (!arguments.destinations[d].streaming) continue;
    const std::uintptr_t missing = (0 - reinterpret_cast<std::uintptr_t>(arguments.destinations[d].data)) % kLine;
    return missing % sizeof(T) == 0 ? missing / sizeof(T) : 0;
  }
  return 0;
}

/// A bit for each of the first 64 destinations that wants streaming and whose element `begin` starts a cache line.
template <typename T>
std::uint64_t streaming_from(const FoldArguments& arguments, std::uint64_t begin) {
  std::uint64_t streams = 0;
  for (std::uint32_t d = 0; d < arguments.destination_count && d < 64; ++d) {
    const FoldDestination& destination = arguments.destinations[d];
    const std::uintptr_t address = reinterpret_cast<std::uintptr_t>(destination.data) + begin * sizeof(T);
    if (destination.streaming && address % kLine == 0) streams |= std::uint64_t{1} << d;
  }
  return streams;
}

/// Any operands, divided or not, with the lanes that fit the count.
template <class Lanes, class Short, class Op, template <class> class Divider>
void sweep_any(const FoldArguments& arguments) {
  using T = typename Lanes::Element;
  if (arguments.count < Short::kCount) {
    if constexpr (Short::kPartial) Sweep<Short, Op, Divider<Short>>(arguments).run_partial(arguments.count);
    return;
  }
  if constexpr (Short::kCount != Lanes::kCount) {
    using ShortSweep = Sweep<Short, Op, Divider<Short>>;
    if (arguments.count < Lanes::kCount) return ShortSweep(arguments).run_short(arguments.count);
  }
  const Sweep<Lanes, Op, Divider<Lanes>> sweep(arguments);
  if (arguments.count * sizeof(T) < least_streamed) return sweep.run(0, arguments.count, 0);
  const std::uint64_t begin = elements_before_line<T>(arguments);
  if (begin != 0) {
    FoldArguments head = arguments;
    head.count = begin;
    sweep_any<Lanes, Short, Op, Divider>(head);
  }
  const std::uint64_t streams = streaming_from<T>(arguments, begin);
  sweep.run(begin, arguments.count, streams);
  if (streams != 0) hwy::FlushStream();
}

template <class Lanes>
using DividerOf = typename Lanes::Divider;

/// Below so many elements an integer's plain division costs less than the reciprocal of a vector's.
inline constexpr std::uint64_t kLeastReciprocal = 16;

/// Whether a fold is one for fold_pair.
HWY_INLINE bool is_pair(const FoldArguments& arguments) {
  return arguments.source_count == 2 && arguments.destination_count == 1;
}

/// Folds a pair with the lanes that fit the count, which is not 0. Nothing is streamed.
template <class Lanes, class Short, class Op, template <class> class Divider>
HWY_INLINE void fold_cached_pair(const FoldArguments& arguments) {
  const std::uint8_t* a = bytes_of(arguments.sources[0].data);
  const std::uint8_t* b = bytes_of(arguments.sources[1].data);
  std::uint8_t* to = bytes_of(arguments.destinations[0].data);
  const std::uint64_t count = arguments.count;
  if (count >= Lanes::kCount) {
    using Pairs = PairSweep<Lanes, Op, Divider<Lanes>>;
    return Pairs::template run<false>(Divider<Lanes>(arguments.divide_by), a, b, to, count);
  }
  if constexpr (Short::kPartial) {
    using Pairs = PairSweep<Short, Op, Divider<Short>>;
    const Divider<Short> divide(arguments.divide_by);
    if (count < Short::kCount) return Pairs::run_partial(divide, a, b, to, count);
    Pairs::template run<false>(divide, a, b, to, count);
  }
}

/// The same, streamed from the destination's first whole cache line on, `begin` elements behind its beginning; `fold` folds
/// what is before.
template <class Lanes, class Op, template <class> class Divider>
HWY_NOINLINE void fold_streamed_pair(FoldArguments arguments, std::uint64_t begin, FoldFunction fold) {
  const std::uint64_t behind = arguments.count - begin;
  const std::uint64_t bytes = begin * sizeof(typename Lanes::Element);
  arguments.count = begin;
  if (begin != 0) fold(arguments);
  PairSweep<Lanes, Op, Divider<Lanes>>::template run<true>(
      Divider<Lanes>(arguments.divide_by), bytes_of(arguments.sources[0].data) + bytes,
      bytes_of(arguments.sources[1].data) + bytes, bytes_of(arguments.destinations[0].data) + bytes, behind);
  hwy::FlushStream();
}

/// A pair's fold by `fold`, whose shorter folds come here again.
template <class Lanes, class Short, class Op, template <class> class Divider>
HWY_INLINE void fold_pair(const FoldArguments& arguments, FoldFunction fold) {
  using T = typename Lanes::Element;
  if (arguments.destinations[0].streaming && arguments.count * sizeof(T) >= least_streamed) {
    const std::uint64_t begin = elements_before_line<T>(arguments);
    if (streaming_from<T>(arguments, begin) != 0) {
      return fold_streamed_pair<Lanes, Op, Divider>(arguments, begin, fold);
    }
  }
  fold_cached_pair<Lanes, Short, Op, Divider>(arguments);
}

/// An average's last fold. Not inlined: folds without division should not carry its code.
template <typename T>
HWY_NOINLINE void fold_divided(const FoldArguments& arguments) {
  if constexpr (std::is_integral_v<T>) {
    if (arguments.count < kLeastReciprocal) {
      return Sweep<ScalarLanes<T>, Sum, typename ScalarLanes<T>::Divider>(arguments).run_short(arguments.count);
    }
  }
  if (is_pair(arguments)) {
    return fold_pair<AnyLanes<T>, ShortAnyLanes<T>, Sum, DividerOf>(arguments, &fold_divided<T>);
  }
  sweep_any<AnyLanes<T>, ShortAnyLanes<T>, Sum, DividerOf>(arguments);
}

/// Whether several destinations are better written one after the other, from where the fold lies in the cache: where none
/// is streamed, since a copy writes whole lines without fetching what they held, which is dear where a peer has them; else
/// where they lie at odds.
inline constexpr std::uint32_t kMostSourcesBesideCopies = 64;
template <typename T>
HWY_INLINE bool one_after_other(const FoldArguments& arguments) {
  if (arguments.destination_count < 2 || arguments.count < least_streamed / sizeof(T)) return false;
  if (arguments.source_count > kMostSourcesBesideCopies) return false;
  return !any_streams(arguments.destinations, arguments.destination_count) ||
         at_odds(arguments.destinations, arguments.destination_count);
}

template <typename T, class Op>
void fold(const FoldArguments& arguments);

/// Piece by piece: folds into the first destination, or into memory of its own where some are streamed and would have to be
/// read again, and copies that to the others.
template <typename T, class Op>
void fold_and_copy(const FoldArguments& arguments) {
  constexpr std::uint64_t most = kPieceBytes / sizeof(T);
  alignas(kLine) std::array<T, most> piece;
  std::array<FoldSource, kMostSourcesBesideCopies> sources{};
  const bool beside = any_streams(arguments.destinations, arguments.destination_count);
  for (std::uint64_t at = 0; at < arguments.count; at += most) {
    const std::uint64_t count = std::min(most, arguments.count - at);
    const auto moved = [at](auto* data) { return bytes_of(data) + at * sizeof(T); };
    for (std::uint32_t s = 0; s < arguments.source_count; ++s) sources[s] = {moved(arguments.sources[s].data)};
    const FoldDestination first = {beside ? bytes_of(piece.data()) : moved(arguments.destinations[0].data)};
    fold<T, Op>({sources.data(), &first, arguments.source_count, 1, count, arguments.divide_by});
    for (std::uint32_t d = beside ? 0 : 1; d < arguments.destination_count; ++d) {
      const FoldDestination& other = arguments.destinations[d];
      copy_piece(first.data, {moved(other.data), other.streaming}, count * sizeof(T));
    }
  }
  if (beside) hwy::FlushStream();
}

/// The fold of reduction.h of type T by Op.
template <typename T, class Op>
void fold(const FoldArguments& arguments) {
  if (arguments.count == 0) return;
  const bool divided = std::is_same_v<Op, Sum> && arguments.divide_by > 1;
  if (is_pair(arguments) && !divided) {
    return fold_pair<WideLanes<T, Op, true>, ShortLanes<T, Op, true>, Op, NoDivider>(arguments, &fold<T, Op>);
  }
  if (arguments.source_count == 1 && !divided) {
    return copy_bytes(arguments.sources[0].data, arguments.destinations, arguments.destination_count,
                      arguments.count * sizeof(T));
  }
  if (one_after_other<T>(arguments)) return fold_and_copy<T, Op>(arguments);
  if constexpr (std::is_same_v<Op, Sum>) {
    if (divided) return fold_divided<T>(arguments);
  }
  sweep_any<WideLanes<T, Op>, ShortLanes<T, Op>, Op, NoDivider>(arguments);
}

/// The folds of one type, by operator: those that fold_kind (src/tables/operators.h) asks for.
template <typename T>
inline constexpr FoldTable kFolds = [] {
  FoldTable table;
  table.prod = &fold<T, Prod>;
  if constexpr (!kIsOneOf<T, Complex<float>, Complex<double>>) {
    table.sum = &fold<T, Sum>;
    table.max = &fold<T, Max>;
    table.min = &fold<T, Min>;
  }
  if constexpr (std::is_same_v<T, std::uint8_t>) {
    table.bitwise_and = &fold<T, BitwiseAnd>;
    table.bitwise_or = &fold<T, BitwiseOr>;
    table.bitwise_xor = &fold<T, BitwiseXor>;
  }
  if constexpr (std::is_unsigned_v<T>) {
    table.logical_and = &fold<T, LogicalAnd>;
    table.logical_or = &fold<T, LogicalOr>;
    table.logical_xor = &fold<T, LogicalXor>;
  }
  return table;
}();

}  // namespace HWY_NAMESPACE
}  // namespace tutti
HWY_AFTER_NAMESPACE();

#endif  // once per instruction set
