// Programs from the meaning of an MSCCL file.
//
// A thread block is a lane, a channel a channel. A chunk of data that lies in the output where it belongs is written there;
// whatever lies elsewhere gets a scratch chunk of its own number. The input is read where it is for as long as the file has
// not written there, so a file that writes its input needs no copy in front of it: only output that no step writes is
// copied, at the end. Scratch is numbered anew, as little of it as there is.
#pragma once

#include <cstdint>
#include <vector>

#include "src/schedule/ir.h"
#include "src/schedule/msccl_flow.h"

namespace tutti::msccl {

/// What is done so that a file is right in every way of calling and of carrying messages, though it was written for one.
struct Care {
  /// What is sent and overwritten later is kept in scratch, from where peers may pull it at leisure: MSCCL's messages go by
  /// slot, and two ranks that swap would otherwise wait for each other's memory.
  bool keep = false;
  /// A step that writes an output chunk waits for the steps that read the input chunk that this is in place.
  bool guard = false;
  /// Input that is output in place is copied to scratch first, and read there.
  bool stage = false;
};

/// The step of the file that a step of a program came from; block -1: none, it was added.
struct StepOrigin {
  std::int32_t block = -1;
  std::uint32_t step = 0;
};

/// Shape (at a credit of 1), programs, and for each step of each program where it is from.
struct Drawn {
  Shape shape;
  std::vector<Program> programs;
  std::vector<std::vector<StepOrigin>> origins;  ///< by rank and index into Program::steps
};

/// Pure. The programs are well-formed, and not yet proved.
Drawn draw(const Flow& flow, Care care);

}  // namespace tutti::msccl
