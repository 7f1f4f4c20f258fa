// Fusion: fewer sweeps over memory, the same result.
#pragma once

#include "src/schedule/ir.h"

namespace tutti {

/// Merges steps of a lane that follow each other, where that saves a sweep:
///   - a step that writes memory, and a plain move that only hands on what it wrote: the first gets the other's
///     destinations too;
///   - a receive into scratch, and the step that is the only one to read it, and once: that one takes the message itself.
/// Dependencies are renumbered. What a fused program computes is the same, but a step then waits for all that its parts
/// waited for, so it may need more credit: it is the fused program that is verified. The program is well-formed. Pure.
Program fuse(const Plan& plan, int rank, Program program);

}  // namespace tutti
