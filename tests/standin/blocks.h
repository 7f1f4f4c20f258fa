// Blocks of kernels: which start when, on which threads.
#pragma once

#include "tests/standin/state.h"

namespace standin {

/// Hands a kernel to its device: blocks start in shuffled order, as many as are resident at one time. With the lock.
std::shared_ptr<Run> issue(Device& device, const OperationPtr& operation);

}  // namespace standin
