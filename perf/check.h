// Whether an operation did what it should: every element of the result, the untouched inputs, and what lies around.
#pragma once

#include <cstdint>
#include <string>

#include "perf/buffers.h"
#include "perf/collectives.h"
#include "perf/data.h"
#include "src/tables/block_division.h"

namespace tutti::perf {

/// Where the elements of a block of the result come from: element k is element `index` + k of an operand (a rank's send
/// buffer, where ranks have one each), or, with `fold`, the fold over that element of all operands.
struct Source {
  bool fold;
  int operand;
  uint64_t index;
};

/// One operation as one rank sees it.
struct CheckedOperation {
  const BenchedCollective* collective = nullptr;
  Pattern pattern;  ///< its ranks and type are the operation's
  int root = 0;
  int rank = 0;
  uint64_t count = 0;  ///< of a block; of a v-variant, the mean
  bool in_place = false;
  BlockDivision division = BlockDivision::even;  ///< of a v-variant

  uint64_t send_count() const;  ///< elements, of a rank that sends, of all its operands
  uint64_t recv_count() const;  ///< elements, of a rank that receives
  uint64_t send_bytes() const;
  uint64_t recv_bytes() const;
  /// Elements of a buffer that is this rank's block alone.
  uint64_t own_count() const;
  /// As DividedCall's.
  uint64_t begin_of(int of, uint64_t block) const;
  /// Source of block `block` of the result, on a rank that receives.
  Source source_of(uint64_t block) const;
};

/// Where the operation's buffers lie. In place they share memory, as the API says for each collective; on ranks whose
/// buffer is ignored, it is NULL in place, and there (to be left alone) out of place.
struct Places {
  std::byte* send;
  std::byte* recv;
  const BlockLists* lists = nullptr;  ///< of a v-variant, of these buffers; the caller's
};

/// Lays an operation into the two buffers; in place only `recv` is used. Both hold at least the larger of send_bytes and
/// recv_bytes.
Places lay_out(const CheckedOperation& operation, std::byte* send, std::byte* recv);

/// A v-variant's lists, of buffers that begin at `send` and `recv`. The root alone has those of rooted ones. Several
/// operands of an all_reduce_v are a block each.
BlockLists block_lists(const CheckedOperation& operation, std::byte* send, std::byte* recv);

/// Writes this rank's input, where it has any; an ignored input gets known bytes. After poison_result, which in place
/// writes to the same memory.
void fill_send(const CheckedOperation& operation, const Places& places);

/// Makes every element of the result wrong: each becomes the complement of what it must become, or, where this rank
/// receives nothing, a known byte. Before fill_send, whose elements in place are left.
void poison_result(const CheckedOperation& operation, const Places& places);

/// What a check found.
struct CheckFinding {
  uint64_t wrong = 0;    ///< elements (and guard bytes) that are not what they must be
  std::string sentence;  ///< about the first of them; empty where there is none

  /// Counts what was found elsewhere, too; the first sentence stays.
  void add(const CheckFinding& more);
};

/// Compares the result with what it must be. Also an ignored buffer out of place, and operands that no result replaces,
/// with what they were.
CheckFinding check_result(const CheckedOperation& operation, const Places& places);

/// Checks `count` elements at `data` against a source, as check_result does; for tests and for that.
CheckFinding check_block(const CheckedOperation& operation, const Source& source, uint64_t count, const std::byte* data,
                         const std::string& what);

}  // namespace tutti::perf
