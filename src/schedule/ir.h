// The schedule: plans and programs as plain data. docs/schedule.md gives the semantics, the verifier proves it.
//
// Four objects are kept apart: the *plan* (equal on all ranks, hashed), the *program* (one rank's lanes of steps, with
// symbolic offsets), the *binding* (one call's addresses and counts) and the *link state* (which lives in the transport).
//
// Where bytes are. A buffer is blocks; pass k works on the window [k*W, (k+1)*W) elements of every block; a window is
// divided into `chunks` chunks, rounded up to the grain. So a (buffer, block, chunk) means a memory range only together
// with a count and a pass, and one program serves every count.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "src/schedule/problem.h"

namespace tutti {

/// Where a step's chunks are: `chunks` chunks from `chunk` on, in each of `blocks` blocks. Block i of the range is
/// (block + (i / run) * stride + i % run) mod the buffer's number of blocks. A message over several blocks holds their
/// pieces one after the other in this order. POD.
struct Range {
  std::uint32_t block = 0;
  std::uint32_t blocks = 1;
  std::uint32_t run = 1;
  std::uint32_t stride = 1;
  std::uint32_t chunk = 0;
  std::uint32_t chunks = 1;

  /// Index of block i of the range in a buffer of `total` blocks.
  std::uint32_t block_at(std::uint32_t i, std::uint32_t total) const {
    return static_cast<std::uint32_t>((std::uint64_t{block} + std::uint64_t{i / run} * stride + i % run) % total);
  }
  bool operator==(const Range&) const = default;
};

enum class Place : std::uint8_t { input, output, scratch, link };

/// One source or destination of a step. For a link, `link` indexes Program::links and `range` says which chunks the
/// message holds (their block counts give its length: `sizing` names the buffer that they are counted in). POD.
struct Operand {
  Place place = Place::input;
  Buffer sizing = Buffer::input;
  std::uint32_t link = 0;
  Range range;
  bool operator==(const Operand&) const = default;
};

/// A step of another lane that must have retired: step `step` of `lane`, `distance` passes ago (0: the same pass). For the
/// first passes, where there is none so long ago, it holds by itself. POD.
struct Dependency {
  std::uint32_t lane = 0;
  std::uint32_t step = 0;
  std::uint32_t distance = 0;
  bool operator==(const Dependency&) const = default;
};

enum StepFlags : std::uint16_t {
  /// The last touch of these chunks of the output: an average divides here.
  last_touch = 1,
  /// Sources are folded by the operator; without it there is exactly one.
  folds = 2,
};

/// move(sources -> destinations): sources are folded left to right, the result is written to every destination in one
/// sweep. Operands and dependencies are ranges of the program's arrays: sources first, then destinations. POD.
struct Step {
  std::uint32_t operands = 0;
  std::uint16_t sources = 0;
  std::uint16_t destinations = 0;
  std::uint32_t dependencies = 0;
  std::uint16_t dependency_count = 0;
  std::uint16_t flags = 0;
};

/// One ordered direction between this rank and `peer`. Each link has one sending lane there and one receiving lane here.
struct Link {
  std::int32_t peer = 0;
  std::uint32_t channel = 0;
  bool sends = false;
  bool operator==(const Link&) const = default;
};

/// An ordered list of steps: [first, first + count) of Program::steps. Lanes run at once.
struct Lane {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
};

/// One rank's share of a plan. No address, count or sequence number; shared by all calls of the plan.
struct Program {
  std::vector<Lane> lanes;
  std::vector<Step> steps;
  std::vector<Operand> operands;
  std::vector<Dependency> dependencies;
  std::vector<Link> links;
};

/// How a link tells of a message. Messages: by a count beside the bytes. Lines: by a tag in every eight bytes, of which
/// four are data; such a message needs no store after another one, but twice the room (NCCL calls this LL).
enum class Protocol : std::uint8_t { messages, lines };

/// What is tunable in an algorithm; 0 is "the algorithm's own choice".
struct Parameters {
  std::uint32_t lanes = 0;
  std::uint32_t depth = 0;
  std::uint32_t strands = 0;  ///< 0: one
  Protocol protocol = Protocol::messages;
  bool operator==(const Parameters&) const = default;
};

/// Elements of a block or a window that a plan may be for: far from where sums and products of them leave 64 bits.
inline constexpr std::uint64_t most_elements = std::uint64_t{1} << 42;

/// Messages that every link of the library takes without its receiver: the most that a schedule may count on.
inline constexpr std::uint32_t most_credit = 4;

/// What an algorithm needs, the same on every rank.
struct Shape {
  std::uint32_t chunks = 1;  ///< that a block's window is divided into
  std::uint32_t lanes = 1;
  std::uint32_t depth = 1;           ///< passes that may be under way at once
  std::uint32_t credit = 1;          ///< least messages that a link must take without its receiver
  std::uint32_t scratch_blocks = 0;  ///< of a window each, per pass under way
  std::uint32_t message_cells = 1;   ///< most (block, chunk) pairs in one message
  bool operator==(const Shape&) const = default;
};

/// One of `count` copies of a program that run a plan's passes in turn: copy i runs passes i, i + count, i + 2 count, ...
/// on links and scratch of its own. Passes touch disjoint windows and dependencies count passes. So a strand is the proved
/// program over some of the passes, and needs no proof of its own. POD.
struct Strand {
  std::uint32_t index = 0;
  std::uint32_t count = 1;

  /// Which pass of the plan the strand's `own` one is.
  constexpr std::uint64_t pass(std::uint64_t own) const { return index + own * count; }
  /// How many of the plan's passes are the strand's.
  constexpr std::uint64_t passes(std::uint64_t all) const { return all <= index ? 0 : (all - index - 1) / count + 1; }
  /// The channel of its link, where the program has channel `channel`.
  constexpr std::uint32_t channel(std::uint32_t channel) const { return channel * count + index; }
};

/// Elements [begin, end) of a block.
struct Elements {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  constexpr std::uint64_t size() const { return end - begin; }

  /// What chunks [chunk, chunk + of) of `size` elements each are, in the `here` elements from `start` on.
  static constexpr Elements chunks_of(std::uint64_t start, std::uint64_t here, std::uint64_t size, std::uint32_t chunk,
                                      std::uint32_t of) {
    return {start + least(here, chunk * size), start + least(here, (std::uint64_t{chunk} + of) * size)};
  }
  // A kernel's compiler has no library.
  static constexpr std::uint64_t least(std::uint64_t a, std::uint64_t b) { return a < b ? a : b; }
};

/// How blocks are cut: into windows, and these into chunks, rounded up to the grain. POD.
struct Division {
  std::uint64_t window = 0;  ///< elements
  std::uint32_t chunks = 1;  ///< of a window
  std::uint32_t grain = 1;   ///< elements

  /// Passes that `count` elements a block take.
  constexpr std::uint64_t passes(std::uint64_t count) const { return count == 0 ? 0 : (count + window - 1) / window; }
  /// Elements of a chunk where the window has so many.
  constexpr std::uint64_t chunk_size(std::uint64_t of) const {
    return ((of + chunks - 1) / chunks + grain - 1) / grain * grain;
  }
};

/// What tells a block's count from others in a message's fingerprint: counts that are alike have tags that are not.
constexpr std::uint64_t tag_of_count(std::uint64_t count) {
  // splitmix64's finaliser.
  std::uint64_t x = count + 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}
/// Of a message with several blocks: the tag of those before, with the next one's.
constexpr std::uint64_t tag_with(std::uint64_t tag, std::uint64_t next) { return 6364136223846793005u * tag + next; }

/// Equal on all ranks, and agreed by its hash.
struct Plan {
  Problem problem;
  std::string algorithm;
  Parameters parameters;
  Shape shape;
  std::uint64_t window = 0;  ///< W, elements of a block that one pass covers; a multiple of chunks * grain
  std::uint32_t grain = 1;   ///< elements; 128 bytes' worth
  std::uint32_t strands = 1;
  Protocol protocol = Protocol::messages;
  std::uint64_t message_bytes = 0;  ///< most that a link's slot holds; the window follows from it
  std::uint64_t hash = 0;

  constexpr Division division() const { return {window, shape.chunks, grain}; }
  /// Passes that `count` elements a block take.
  std::uint64_t passes(std::uint64_t count) const { return division().passes(count); }
};

/// Bytes of the longest message of a plan, as its algorithm states it. A window has a grain at least. So where a message
/// has many cells, or elements are long, that may be more than a slot holds.
std::uint64_t longest_message(const Plan& plan);

/// Messages that the library's links take of a plan.
inline std::uint32_t link_credit(const Plan& plan) { return std::max(most_credit, plan.shape.credit); }

/// What is wrong with the plan's count, window, grain or chunks, for a sentence; nullptr where elements_of can take them.
const char* wrong_sizes(const Plan& plan);
/// Likewise of a division alone.
const char* wrong_sizes(const Division& division);

/// Elements that chunks [chunk, chunk + chunks) of pass `pass` are, of a block of `count`.
inline Elements elements_of(const Plan& plan, std::uint64_t count, std::uint64_t pass, std::uint32_t chunk,
                            std::uint32_t chunks) {
  const std::uint64_t start = std::min(count, pass * plan.window);
  const std::uint64_t here = std::min(plan.window, count - start);
  return Elements::chunks_of(start, here, plan.division().chunk_size(here), chunk, chunks);
}

/// The plan's window for links whose slots hold message_bytes: as large as the longest message allows. Also fills grain and
/// hash. All else is set. The barrier moves one scratch element of one byte.
void finish_plan(Plan& plan, std::uint64_t message_bytes);

}  // namespace tutti
