// What an executor may leave out of a program, because only some ways of carrying messages need it, and what it may do
// before its turn.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "src/schedule/ir.h"

namespace tutti {

/// For every operand of the program: 1 where it is a scratch destination that no step ever reads, so that it only serves as
/// memory that a peer may pull a message from; else 0. Where a step's messages all go by slot, such a destination need not
/// be written; out of place its single source may be offered instead, as the input is never overwritten. The program is
/// well-formed. Pure; time proportional to the program.
std::vector<std::uint8_t> only_offered(const Plan& plan, int rank, const Program& program);

/// A step that takes a message from a link.
struct Receive {
  std::uint32_t lane = 0;
  std::uint32_t step = 0;  ///< within the lane
  /// Whether the memory that the message is bound for may be granted as soon as the call begins, out of place and in place:
  /// no other step here writes it, and what is read there before the message comes is read by its sender alone, who must
  /// have read it to send the message (in place, a share of an all-reduce on which the sum is the answer).
  bool early = false;
  bool early_in_place = false;
};

/// Another rank's program of the same plan.
using ProgramOf = std::function<Program(int rank)>;

/// For every link of the program the steps that take its messages, in the order of a pass; none where this rank sends. The
/// program is well-formed. Pure; time proportional to the program, and to those of the peers that it asks for. Without
/// `program_of` nothing is known of peers, and less is early.
std::vector<std::vector<Receive>> receives(const Plan& plan, int rank, const Program& program,
                                           const ProgramOf& program_of = {});

/// An order in which this rank may run the steps of one pass one after another, waiting at each: indices into
/// Program::steps. A lane's own order where there is one lane; else one that all ranks find alike by running their programs
/// against each other, and empty where `program_of` is, or where that run would stop. The program is well-formed. Pure;
/// time proportional to all ranks' programs.
///
/// No rank waits for ever, whether all keep to it or some run their lanes and offer their memory: each order is a part of
/// that one run, in which every step came when what it waits for had come, and what could be offered had been taken before
/// it was overwritten. Of what is not done, the step that came first there can be done.
std::vector<std::uint32_t> sequential_order(const Plan& plan, int rank, const Program& program,
                                            const ProgramOf& program_of);

/// A sequential order in which, of receives that follow one another, those of `same_core` links come first: whoever waits
/// for a peer on its own core has to hand that over, and finds what the others sent meanwhile. near: per link, 0 or 1.
/// output_blocks: of this rank.
///
/// Only receives change places that put the only message of their links in a pass into different places of the output, and
/// do nothing else: in a call of one pass peers can tell in which order those are taken by the memory that they offered
/// alone. So whether still nobody waits for ever is for near_first_goes_through to say. Pure.
std::vector<std::uint32_t> same_core_first(std::vector<std::uint32_t> order, const Program& program,
                                           std::span<const std::uint8_t> same_core, std::uint32_t output_blocks);

/// Of a rank and its program, `near` as same_core_first takes it.
using NearOf = std::function<std::vector<std::uint8_t>(int rank, const Program& program)>;

/// Whether same_core_first changes any rank's order in sequential order, and all come to the end of a pass where all keep
/// to what it makes of them, by a run as sequential_order's. The same on all ranks. Pure; as much time.
bool near_first_goes_through(const Plan& plan, const ProgramOf& program_of, const NearOf& same_core_of);

}  // namespace tutti
