// Whether thread blocks of one rank of an MSCCL file disturb each other's memory.
#pragma once

#include "src/schedule/msccl_flow.h"
#include "src/schedule/verifier.h"

namespace tutti::msccl {

/// Looks at the file's own memory and its own dependencies, by the same check that every program passes (races.h): what a
/// program made of the file keeps apart, a file may not have run together. lane and step of the fault are thread block and
/// step. Pure.
Fault find_race(const Gpu& gpu, const Locations& locations);

}  // namespace tutti::msccl
