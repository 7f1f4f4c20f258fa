// A block of threads as kernels see it, the same on a GPU and on the host: kernels include this, order.h, and nothing of
// CUDA.
//
//   struct CopyParameters { … };
//   template of a kernel's body:  TUTTI_DEVICE void copy(Group& group, const CopyParameters& given) { … }
//   its entry:                    TUTTI_KERNEL(copy_kernel, CopyParameters, copy)
//
// A Group has, on either side:
//   rank(), size()          of this thread in its block
//   block(), blocks()       of this block in the grid
//   shared()                the block's storage, 16-byte aligned, as many bytes as the launch says
//   barrier()               all threads of the block meet; what each wrote before is seen by all after
//   any(vote)               a barrier; whether any vote was true
//   broadcast(value, from)  a barrier; the 64-bit value of thread `from`
//   timer_ns()              nanoseconds of a clock that all devices of a machine share
//   pause()                 belongs into every loop that polls
// Word32 and Word64 are unsigned, by the name that the compiler has for them. order.h says how words are shared.
// All threads of a block call barrier, any and broadcast in the same order.
#pragma once

#if defined(__CUDACC__) || defined(__CUDA__)
#include "src/cuda/device/group_device.h"
#else
#include "src/cuda/device/group_host.h"
#endif
