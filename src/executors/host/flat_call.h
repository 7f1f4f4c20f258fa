// Calls in which nothing is left to decide: one pass, steps that can go one after the other (lowering.h), and no message
// that this rank offers or grants. All small messages are such calls, and a part of their time is what is not looked at.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/schedule/ir.h"
#include "src/schedule/layout.h"

namespace tutti {

/// No shorter message is offered: copying it into a slot is cheaper than keeping track of it, or of lanes.
inline constexpr std::uint64_t least_offer = 16384;

/// A program's steps in the order they run, taken apart into what every call of the plan does, one after the other: what
/// remains is to wait, to fold and to hand over. Plain data.
struct FlatCall {
  /// Where something lies: input, output and scratch, as Buffer counts them, and behind them, numbered from here within a
  /// step, its messages.
  static constexpr std::uint32_t messages = 3;

  enum class Kind : std::uint8_t {
    view,        ///< waits for the link's next message, which is `place` from then on
    reserve,     ///< waits for room for the link's next message, likewise
    send,        ///< waits for room for the link's next message, which is a short one of one piece, and sends it on its way
    copy,        ///< one piece, of one source to one destination
    fold,        ///< one piece, of all others
    revalidate,  ///< whether what was read of the link's message was that still, as its sender may have offered its memory
    release,     ///< lets the link's message go
    commit,      ///< sends the link's message on its way
  };
  /// How long a message is looked for, beyond once, before the core is handed over (bounded_spin.h).
  enum class Look : std::uint8_t {
    none,
    running,              ///< while its sender runs
    even_if_descheduled,  ///< it is likely to be here soon, from another core
  };
  struct Operand {
    std::uint32_t place = 0;
    std::uint32_t link = 0;    ///< of a message, index into Program::links
    std::uint64_t offset = 0;  ///< bytes from the place's beginning
  };
  struct Instruction {
    Kind kind = Kind::view;
    Look look = Look::none;          ///< view: before the core is handed over
    std::uint32_t link = 0;          ///< index into Program::links
    std::uint32_t place = 0;         ///< of the message
    std::uint32_t operand = 0;       ///< send: in `operands`; copy, fold: its first there: sources, then destinations
    std::uint32_t sources = 0;       ///< likewise
    std::uint32_t destinations = 0;  ///< likewise, without those that are only there to be offered
    std::uint64_t count = 0;         ///< of the message, or of a copied piece: bytes, not 0. fold: as FoldArguments::count
    std::uint64_t message = 0;       ///< copy, fold: bytes of the step's messages
    std::uint64_t divide_by = 0;     ///< as FoldArguments::divide_by
  };
  std::vector<Instruction> instructions;
  std::vector<Operand> operands;
};

/// A plan's layouts on the host.
struct HostLayouts : Layouts {
  FlatCall flat;  ///< where the call is such a one; else without instructions
};
/// The steps of calls of one pass in a row, of the first strand; without instructions where they are not flat. Pure.
FlatCall flatten(const Plan& plan, const Lowered& lowered, const Layouts& layouts);
/// Where everything lies in calls of a plan, as the host runs them. strand: below plan.strands. Pure.
HostLayouts lay_out_for_host(const Plan& plan, int rank, const Lowered& lowered, std::uint32_t strand = 0);

}  // namespace tutti
