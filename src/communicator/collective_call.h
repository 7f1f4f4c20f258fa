// A collective, as a verb asks for it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "include/tutti/tutti.h"
#include "src/communicator/custom_operator.h"
#include "src/schedule/problem.h"
#include "src/tables/element_types.h"
#include "src/tables/operators.h"

namespace tutti {

/// What a collective does, whatever its buffers.
struct CallShape {
  Collective collective = Collective::all_reduce;
  std::uint64_t count = 0;
  tutti_type type = TUTTI_FLOAT32;
  tutti_op op = TUTTI_SUM;
  int root = 0;
  bool operator==(const CallShape&) const = default;
};

/// The buffers of a v-variant, as its verb takes them: single blocks, and lists of as many blocks as there are ranks.
struct IrregularArguments {
  tutti_block send{};                        ///< where the collective's senders have one block
  tutti_block recv{};                        ///< likewise
  const tutti_block* send_blocks = nullptr;  ///< where they have one for each rank
  const tutti_block* recv_blocks = nullptr;
};

/// One collective, as a verb asks for it.
struct CollectiveCall : CallShape {
  const void* send = nullptr;
  void* recv = nullptr;
  std::uint64_t timeout_ns = 0;  ///< 0: the communicator's
  std::uint64_t user_tag = 0;
  std::uint32_t min_blocks = 0;  ///< thread blocks of its launch; 0: as settings say
  std::uint32_t max_blocks = 0;
  bool beside = false;     ///< runs beside its caller's computing, which may want the core
  bool on_device = false;  ///< its processor is a device
  bool finalizes = false;  ///< the barrier of finalize, which errors call by that name
  std::string name;
  std::string algorithm;
  std::shared_ptr<const CustomOperator> custom;  ///< the operator, where it is one; `op` is then as a plan has it
  bool one_fold = false;                         ///< as Problem's, where this call asks for it
  std::uint32_t local_operands = 1;              ///< as Problem's
  /// Whether it is a v-variant. `input` and `output` are then its buffers. `count` is that of all blocks whose counts every
  /// rank has; where each rank has others it is 1. So it is 0 where no rank has anything to do.
  bool irregular = false;
  std::vector<tutti_block> input;  ///< as many as blocks_of says; counts are of the problem's elements (Problem::opaque)
  std::vector<tutti_block> output;
  /// Whether both buffers are lists of pieces of any length, `input` and `output`, each of which counts as one buffer. The
  /// two have local_operands times `count`, and `count`, of the call's elements. `send` and `recv` are unset.
  bool in_pieces = false;

  /// The blocks whose counts every rank has; none where each has others.
  std::span<const tutti_block> agreed() const {
    if (!irregular || !info_of(collective).knows_all_counts()) return {};
    return info_of(collective).has_send_blocks() ? input : output;
  }
  /// Elements of the problem that one of the call's is: see problem_elements. A user-defined operator takes each whole.
  std::uint64_t problem_units() const { return op == user_operator ? 1 : problem_elements(type); }
  /// What the activity board tells other ranks of it, whose errors name it: `detail` of what was called.
  std::array<std::uint64_t, 3> detail() const {
    // Ranks need not have the same count of others' v-variants.
    const std::uint64_t told = irregular && agreed().empty() ? 0 : count;
    const bool scales = on_device && custom != nullptr;
    const std::uint64_t options =
        (on_device ? 1u : 0u) | (one_fold ? 2u : 0u) | (scales ? 4u : 0u) | std::uint64_t{local_operands} << 3;
    return {static_cast<std::uint64_t>(type) << 32 | static_cast<std::uint32_t>(op),
            options << 32 | static_cast<std::uint32_t>(root), told};
  }
  /// Bytes of its count; of a v-variant, of the blocks that this rank sends.
  std::uint64_t bytes() const {
    if (!irregular) return count * element_bytes(type);
    std::uint64_t elements = 0;
    for (const tutti_block& block : input) elements += block.count;
    return elements / problem_units() * element_bytes(type);
  }
  /// The verb's name; static.
  const char* kind() const {
    if (finalizes) return "finalize";
    return irregular ? info_of(collective).v_variant : name_of(collective);
  }
};

}  // namespace tutti
