// An MSCCL algorithm file as it stands: who does what, in the file's own terms. What it means is msccl_flow.h's business.
//
// The format is that of Microsoft's MSCCL (github.com/microsoft/msccl, -tools, and the same in RCCL): XML, written by the
// MSCCLang compiler ("MSCCLang: Microsoft Collective Communication Language", ASPLOS 2023). docs/schedule.md says what of
// it is read.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.h"
#include "src/schedule/problem.h"

namespace tutti::msccl {

/// What a step does, with the format's names. A fold is of what lies at the source and, in `re`, at the destination; in the
/// others, of what was received.
enum class StepType : std::uint8_t {
  nop,   ///< only waits
  cpy,   ///< source to destination
  re,    ///< folds the source into the destination
  s,     ///< sends the source
  r,     ///< receives into the destination
  rcs,   ///< receives into the destination and sends the same
  rrs,   ///< receives, folds with the source, and sends the result
  rrc,   ///< receives, folds with the source, and keeps the result at the destination
  rrcs,  ///< both
};

bool sends(StepType type);
bool receives(StepType type);
/// Whether the source, or the destination, is memory of this rank that counts; what else the file says there does not.
bool reads_source(StepType type);
bool writes_destination(StepType type);
bool folds(StepType type);
/// As the file writes it.
const char* name_of(StepType type);

/// A place in a rank's memory: chunk `chunk` of a buffer, counted over all its blocks.
struct Place {
  Buffer buffer = Buffer::input;
  std::uint32_t chunk = 0;
};

/// One step of a thread block. It waits for step `depends_step` of thread block `depends_block` where that is not -1.
struct Step {
  StepType type = StepType::nop;
  Place source;
  Place destination;
  std::uint32_t count = 0;  ///< consecutive chunks; 0 for a nop
  std::int32_t depends_block = -1;
  std::uint32_t depends_step = 0;
};

/// Steps in order. All its sends go to one peer, all it receives comes from one; -1 is nobody.
struct ThreadBlock {
  std::int32_t send = -1;
  std::int32_t receive = -1;
  std::uint32_t channel = 0;
  std::vector<Step> steps;
};

/// One rank.
struct Gpu {
  std::array<std::uint32_t, 3> chunks{};  ///< by Buffer
  std::vector<ThreadBlock> blocks;        ///< by id
};

/// A file whose numbers are in range of each other. Plain data.
struct File {
  std::string name;
  Collective collective = Collective::all_reduce;
  std::int32_t root = -1;    ///< -1: the file does not say
  std::uint32_t chunks = 1;  ///< of all blocks of the collective's larger buffer ("nchunksperloop")
  bool in_place = false;     ///< right where input and output are the same memory
  bool out_of_place = false;
  std::uint64_t min_bytes = 0;  ///< of the larger buffer: what it is meant for
  std::uint64_t max_bytes = UINT64_MAX;
  std::vector<Gpu> gpus;   ///< by id
  std::uint64_t work = 0;  ///< to follow it: its steps, the chunks that they move, and the chunks of all buffers
};

/// "rank 1, thread block 0, step 3"; without what is negative.
std::string where(std::int64_t rank, std::int64_t block = -1, std::int64_t step = -1);

/// Reads the text of a file. Errors: TUTTI_INVALID_ARGUMENT with one sentence that names rank, thread block and step where
/// they are known. Pure; whatever comes in, there is an answer.
Result<File> parse(std::string_view text);

}  // namespace tutti::msccl
