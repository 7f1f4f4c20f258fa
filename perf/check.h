// Whether an operation did what it should: every element of the result, the untouched inputs, and what lies around.
#pragma once

#include <cstdint>
#include <string>

#include "perf/buffers.h"
#include "perf/collectives.h"
#include "perf/data.h"

namespace tutti::perf {

/// One operation as one rank sees it.
struct CheckedOperation {
  const BenchedCollective* collective = nullptr;
  Pattern pattern;  ///< its ranks and type are the operation's
  int root = 0;
  int rank = 0;
  uint64_t count = 0;
  bool in_place = false;

  uint64_t send_bytes() const;  ///< of a rank that sends
  uint64_t recv_bytes() const;  ///< of a rank that receives
};

/// Where the operation's buffers lie. In place they share memory, as the API says for each collective; on ranks whose
/// buffer is ignored, it is NULL in place, and there (to be left alone) out of place.
struct Places {
  std::byte* send;
  std::byte* recv;
};

/// Lays an operation into the two buffers; in place only `recv` is used. Both hold at least the larger of send_bytes and
/// recv_bytes.
Places lay_out(const CheckedOperation& operation, std::byte* send, std::byte* recv);

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
};

/// Compares the result with what it must be, out of place also the input and an ignored buffer with what they were.
CheckFinding check_result(const CheckedOperation& operation, const Places& places);

/// Checks `count` elements at `data` against a source, as check_result does; for tests and for that.
CheckFinding check_block(const CheckedOperation& operation, const Source& source, uint64_t count, const std::byte* data,
                         const std::string& what);

}  // namespace tutti::perf
