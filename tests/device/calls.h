// Collectives as values: what each rank's buffers are, how it is called, and what it gives for integers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "include/tutti/tutti.h"
#include "src/tables/element_types.h"
#include "src/tables/operators.h"

namespace tutti::test {

enum class Verb { all_reduce, reduce, broadcast, all_gather, reduce_scatter, all_to_all, gather, scatter, barrier };
inline constexpr int kVerbs = 9;

inline const char* name_of(Verb verb) {
  constexpr const char* names[] = {"all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter",
                                   "all_to_all", "gather", "scatter",   "barrier"};
  return names[static_cast<int>(verb)];
}
inline bool folds(Verb verb) { return verb == Verb::all_reduce || verb == Verb::reduce || verb == Verb::reduce_scatter; }
inline bool is_rooted(Verb verb) {
  return verb == Verb::reduce || verb == Verb::broadcast || verb == Verb::gather || verb == Verb::scatter;
}

/// A collective call, the same on all ranks.
struct CollectiveCase {
  Verb verb = Verb::all_reduce;
  tutti_type type = TUTTI_INT32;
  tutti_op op = TUTTI_SUM;
  std::size_t count = 0;
  int root = 0;
  bool in_place = false;
  const char* algorithm = nullptr;
  std::size_t local_operands = 0;  ///< operands that each rank has, as tutti_call.canonical counts those of all; 0: unset
  bool reproducible = false;
  bool accumulates = false;  ///< in float32

  std::string text() const {
    return std::string(name_of(verb)) + " of " + std::to_string(count) + " elements, type " + std::to_string(type) +
           ", op " + std::to_string(op) + ", root " + std::to_string(root) + (in_place ? ", in place" : "") + ", by " +
           (algorithm != nullptr ? algorithm : "any algorithm") + (reproducible ? ", reproducible" : "") +
           (accumulates ? ", accumulated in float32" : "") +
           (local_operands != 0 ? ", " + std::to_string(local_operands) + " operands a rank" : "");
  }
};

/// Elements that a rank's send and recv hold; 0: the buffer is ignored.
struct Extents {
  std::size_t send = 0;
  std::size_t recv = 0;
};
inline Extents extents(const CollectiveCase& of, int rank, int ranks) {
  const std::size_t all = of.count * static_cast<std::size_t>(ranks);
  const bool is_root = rank == of.root;
  const std::size_t operands = of.count * std::max<std::size_t>(1, of.local_operands);
  switch (of.verb) {
    case Verb::all_reduce:
      return {operands, of.count};
    case Verb::reduce:
      return {operands, is_root ? of.count : 0};
    case Verb::broadcast:
      return {is_root ? of.count : 0, of.count};
    case Verb::all_gather:
      return {of.count, all};
    case Verb::reduce_scatter:
      return {all, of.count};
    case Verb::all_to_all:
      return {all, all};
    case Verb::gather:
      return {of.count, is_root ? all : 0};
    case Verb::scatter:
      return {is_root ? all : 0, of.count};
    case Verb::barrier:
      break;
  }
  return {};
}

/// A rank's memory for a call: two buffers, or one for both in place. Offsets are in bytes.
struct Arrangement {
  std::size_t send_bytes = 0;
  std::size_t recv_bytes = 0;
  bool shared = false;  ///< both lie in the larger of the two
  std::size_t send_at = 0;
  std::size_t recv_at = 0;

  std::size_t shared_bytes() const { return std::max(send_bytes, recv_bytes); }
};
inline Arrangement arrange(const CollectiveCase& of, int rank, int ranks) {
  const std::size_t element = tutti_type_size(of.type);
  const auto [send, recv] = extents(of, rank, ranks);
  Arrangement made;
  made.send_bytes = send * element;
  made.recv_bytes = recv * element;
  made.shared = of.in_place && send != 0 && recv != 0;
  if (!made.shared) return made;
  const std::size_t own_block = static_cast<std::size_t>(rank) * of.count * element;
  if (send < recv) made.send_at = own_block;
  if (recv < send && of.local_operands == 0) made.recv_at = own_block;
  return made;
}

/// What the case says besides buffers, added to `call`.
inline tutti_call options_of(const CollectiveCase& of, const tutti_comm* comm, tutti_call call = TUTTI_CALL_INIT) {
  if (call.algorithm == nullptr) call.algorithm = of.algorithm;
  if (of.reproducible) call.reproducible = 1;
  if (of.accumulates) call.accumulate = TUTTI_FLOAT32;
  int ranks = 0;
  if (of.local_operands != 0 && tutti_comm_size(comm, &ranks) == TUTTI_SUCCESS)
    call.canonical = static_cast<std::uint32_t>(of.local_operands) * static_cast<std::uint32_t>(ranks);
  return call;
}

/// Makes the call.
inline tutti_status issue(const CollectiveCase& of, const void* send, void* recv, tutti_comm* comm, tutti_stream stream,
                          tutti_call call = TUTTI_CALL_INIT) {
  call = options_of(of, comm, call);
  switch (of.verb) {
    case Verb::all_reduce:
      return tutti_all_reduce(send, recv, of.count, of.type, of.op, comm, stream, &call);
    case Verb::reduce:
      return tutti_reduce(send, recv, of.count, of.type, of.op, of.root, comm, stream, &call);
    case Verb::broadcast:
      return tutti_broadcast(send, recv, of.count, of.type, of.root, comm, stream, &call);
    case Verb::all_gather:
      return tutti_all_gather(send, recv, of.count, of.type, comm, stream, &call);
    case Verb::reduce_scatter:
      return tutti_reduce_scatter(send, recv, of.count, of.type, of.op, comm, stream, &call);
    case Verb::all_to_all:
      return tutti_all_to_all(send, recv, of.count, of.type, comm, stream, &call);
    case Verb::gather:
      return tutti_gather(send, recv, of.count, of.type, of.root, comm, stream, &call);
    case Verb::scatter:
      return tutti_scatter(send, recv, of.count, of.type, of.root, comm, stream, &call);
    case Verb::barrier:
      break;
  }
  return tutti_barrier(comm, stream, &call);
}

/// What rank's send holds at first, the same whoever asks. Floats are of every kind, and half of them of like size, so that
/// their sums round.
inline std::vector<std::uint8_t> contents_of(const CollectiveCase& of, std::uint64_t seed, int rank, std::size_t bytes) {
  std::mt19937_64 random(seed * 64 + static_cast<std::uint64_t>(rank));
  std::vector<std::uint8_t> contents(bytes);
  for (std::uint8_t& byte : contents) byte = static_cast<std::uint8_t>(random());
  const auto near_one = [&]<typename Bits>(Bits, int mantissa, int exponent) {
    const Bits bias = static_cast<Bits>((Bits{1} << (exponent - 1)) - 1);
    for (std::size_t at = 0; at + sizeof(Bits) <= bytes; at += 2 * sizeof(Bits)) {
      Bits bits;
      std::memcpy(&bits, contents.data() + at, sizeof bits);
      const Bits sign_and_mantissa = static_cast<Bits>(bits & ~static_cast<Bits>(((Bits{1} << exponent) - 1) << mantissa));
      bits = static_cast<Bits>(sign_and_mantissa | static_cast<Bits>(static_cast<Bits>(bias + bits % 4) << mantissa));
      std::memcpy(contents.data() + at, &bits, sizeof bits);
    }
  };
  if (of.type == TUTTI_FLOAT8_E4M3) near_one(std::uint8_t{}, 3, 4);
  if (of.type == TUTTI_FLOAT8_E5M2) near_one(std::uint8_t{}, 2, 5);
  if (of.type == TUTTI_FLOAT16) near_one(std::uint16_t{}, 10, 5);
  if (of.type == TUTTI_BFLOAT16) near_one(std::uint16_t{}, 7, 8);
  if (of.type == TUTTI_FLOAT32 || of.type == TUTTI_COMPLEX64) near_one(std::uint32_t{}, 23, 8);
  if (of.type == TUTTI_FLOAT64 || of.type == TUTTI_COMPLEX128) near_one(std::uint64_t{}, 52, 11);
  return contents;
}

/// What the operator does with truth values, as one of bits. Other operators are themselves.
inline tutti_op of_truth_values(tutti_op op) {
  if (op == TUTTI_SUM || op == TUTTI_MAX || op == TUTTI_LOGICAL_OR) return TUTTI_BITWISE_OR;
  if (op == TUTTI_PROD || op == TUTTI_MIN || op == TUTTI_LOGICAL_AND) return TUTTI_BITWISE_AND;
  return op == TUTTI_LOGICAL_XOR ? TUTTI_BITWISE_XOR : op;
}

/// Folds one integer element of every rank.
template <typename T>
T fold(tutti_op op, std::vector<T> operands, bool are_truth_values) {
  using Unsigned = std::make_unsigned_t<T>;
  if (operands.size() == 1) return operands[0];  // nothing was folded
  if (are_truth_values || op == TUTTI_LOGICAL_AND || op == TUTTI_LOGICAL_OR || op == TUTTI_LOGICAL_XOR) {
    op = of_truth_values(op);
    for (T& operand : operands) operand = operand != 0 ? 1 : 0;
  }
  T folded = operands[0];
  for (std::size_t r = 1; r < operands.size(); ++r) {
    const T next = operands[r];
    if (op == TUTTI_BITWISE_AND) folded = static_cast<T>(folded & next);
    if (op == TUTTI_BITWISE_OR) folded = static_cast<T>(folded | next);
    if (op == TUTTI_BITWISE_XOR) folded = static_cast<T>(folded ^ next);
    if (op == TUTTI_MAX) folded = std::max(folded, next);
    if (op == TUTTI_MIN) folded = std::min(folded, next);
    // Wide enough that no product of small types overflows as an int.
    if (op == TUTTI_PROD)
      folded = static_cast<T>(static_cast<Unsigned>(static_cast<std::uint64_t>(folded) * static_cast<std::uint64_t>(next)));
    if (op == TUTTI_SUM || op == TUTTI_AVG)
      folded = static_cast<T>(static_cast<Unsigned>(static_cast<std::uint64_t>(folded) + static_cast<std::uint64_t>(next)));
  }
  if (op != TUTTI_AVG) return folded;
  if constexpr (std::is_signed_v<T>) return static_cast<T>(folded / static_cast<T>(operands.size()));
  return static_cast<T>(folded / operands.size());
}

/// What rank's recv holds afterwards, by hand: for what folds nothing, and for integers.
class Reference {
 public:
  Reference(const CollectiveCase& of, std::uint64_t seed, int ranks) : of_(of), element_(tutti_type_size(of.type)) {
    for (int r = 0; r < ranks; ++r) sends_.push_back(contents_of(of, seed, r, extents(of, r, ranks).send * element_));
  }
  static bool knows(const CollectiveCase& of) {
    const ElementKind kind = element_type_info(of.type).kind;
    return !folds(of.verb) || (kind != ElementKind::floating && kind != ElementKind::complex);
  }

  std::vector<std::uint8_t> recv_of(int rank) const {
    const std::size_t root = static_cast<std::size_t>(of_.root);
    const std::size_t block = of_.count * element_;
    const std::size_t own = static_cast<std::size_t>(rank);
    switch (of_.verb) {
      case Verb::all_reduce:
        return folded(0);
      case Verb::reduce:
        return own == root ? folded(0) : std::vector<std::uint8_t>();
      case Verb::reduce_scatter:
        return folded(own * of_.count);
      case Verb::broadcast:
        return sends_[root];
      case Verb::scatter:
        return block_of(root, own * block, block);
      case Verb::gather:
        return own == root ? joined(0) : std::vector<std::uint8_t>();
      case Verb::all_gather:
        return joined(0);
      case Verb::all_to_all:
        return joined(own * block);
      case Verb::barrier:
        break;
    }
    return {};
  }

 private:
  std::vector<std::uint8_t> block_of(std::size_t rank, std::size_t at, std::size_t bytes) const {
    const auto begin = sends_[rank].begin() + static_cast<std::ptrdiff_t>(at);
    return {begin, begin + static_cast<std::ptrdiff_t>(bytes)};
  }
  /// One block of every rank, in order.
  std::vector<std::uint8_t> joined(std::size_t at) const {
    std::vector<std::uint8_t> all;
    for (std::size_t r = 0; r < sends_.size(); ++r) {
      const auto block = block_of(r, at, of_.count * element_);
      all.insert(all.end(), block.begin(), block.end());
    }
    return all;
  }
  template <typename T>
  std::vector<std::uint8_t> folded_as(std::size_t first) const {
    std::vector<std::uint8_t> out(of_.count * sizeof(T));
    const std::size_t local_operands = std::max<std::size_t>(1, of_.local_operands);
    std::vector<T> operands(sends_.size() * local_operands);
    for (std::size_t i = 0; i < of_.count; ++i) {
      for (std::size_t o = 0; o < operands.size(); ++o)
        std::memcpy(&operands[o],
                    sends_[o / local_operands].data() + (o % local_operands * of_.count + first + i) * sizeof(T),
                    sizeof(T));
      const T value = fold(of_.op, operands, of_.type == TUTTI_BOOL);
      std::memcpy(out.data() + i * sizeof(T), &value, sizeof(T));
    }
    return out;
  }
  std::vector<std::uint8_t> folded(std::size_t first) const {
    switch (of_.type) {
      case TUTTI_INT8:
        return folded_as<std::int8_t>(first);
      case TUTTI_UINT8:
      case TUTTI_BOOL:
        return folded_as<std::uint8_t>(first);
      case TUTTI_INT16:
        return folded_as<std::int16_t>(first);
      case TUTTI_UINT16:
        return folded_as<std::uint16_t>(first);
      case TUTTI_INT32:
        return folded_as<std::int32_t>(first);
      case TUTTI_UINT32:
        return folded_as<std::uint32_t>(first);
      case TUTTI_INT64:
        return folded_as<std::int64_t>(first);
      default:
        return folded_as<std::uint64_t>(first);
    }
  }

  const CollectiveCase of_;
  const std::size_t element_;
  std::vector<std::vector<std::uint8_t>> sends_;
};

/// Names of a verb's algorithms, as `tutti-plan cost` lists them. Not each takes every number of ranks.
inline std::vector<const char*> algorithms_of(Verb verb) {
  switch (verb) {
    case Verb::all_reduce:
      return {"flat", "recursive_doubling", "direct", "halving_doubling", "ring", "double_tree",
              "tree", "transpose",          "central"};
    case Verb::reduce:
      return {"binomial", "chain", "reduce_scatter_gather", "direct", "central"};
    case Verb::broadcast:
      return {"binomial", "chain", "scatter_all_gather"};
    case Verb::all_gather:
      return {"direct", "bruck", "ring"};
    case Verb::reduce_scatter:
      return {"direct", "bruck", "ring"};
    case Verb::all_to_all:
      return {"pairwise", "bruck"};
    case Verb::gather:
    case Verb::scatter:
      return {"direct", "binomial"};
    case Verb::barrier:
      break;
  }
  return {"dissemination"};
}

}  // namespace tutti::test
