// Groups on a GPU: group.h's half for nvcc and for clang without NVIDIA's headers. PTX of our own, since CCCL costs seconds
// a unit (CUDA.md 6.5). All of it is of PTX 6.4 and sm_75 or less.
#pragma once

#ifndef __device__
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#endif

#define TUTTI_DEVICE __device__ inline __attribute__((always_inline))
// For what many places need and few launches: its code is there once.
#define TUTTI_DEVICE_NOINLINE __device__ inline __attribute__((noinline))
// A kernel that takes its parameters' address copies them to its stack otherwise. clang 19 does not know the word.
#ifdef __CUDACC__
#define TUTTI_PARAMETER __grid_constant__
#else
#define TUTTI_PARAMETER
#endif
/// Defines `name`, a kernel of one struct of parameters.
#define TUTTI_KERNEL(name, Parameters, body)                                \
  extern "C" __global__ void name(const TUTTI_PARAMETER Parameters given) { \
    tutti::device::Group group;                                             \
    body(group, given);                                                     \
  }

namespace tutti::device {

// By themselves: clang has no C++ library for the device without NVIDIA's headers.
using Word32 = unsigned int;
using Word64 = unsigned long long;

extern __shared__ __attribute__((aligned(16))) Word64 dynamic_storage[];

/// See group.h.
class Group {
 public:
  TUTTI_DEVICE Word32 rank() const {
    Word32 value;
    asm("mov.u32 %0, %%tid.x;" : "=r"(value));
    return value;
  }
  TUTTI_DEVICE Word32 size() const {
    Word32 value;
    asm("mov.u32 %0, %%ntid.x;" : "=r"(value));
    return value;
  }
  TUTTI_DEVICE Word32 block() const {
    Word32 value;
    asm("mov.u32 %0, %%ctaid.x;" : "=r"(value));
    return value;
  }
  TUTTI_DEVICE Word32 blocks() const {
    Word32 value;
    asm("mov.u32 %0, %%nctaid.x;" : "=r"(value));
    return value;
  }
  TUTTI_DEVICE void* shared() const { return dynamic_storage; }
  TUTTI_DEVICE void barrier() { asm volatile("barrier.sync 0;" ::: "memory"); }
  TUTTI_DEVICE bool any(bool vote) {
    Word32 result;
    asm volatile(
        "{\n\t.reg .pred given, all;\n\t"
        "setp.ne.u32 given, %1, 0;\n\t"
        "barrier.red.or.pred all, 0, given;\n\t"
        "selp.u32 %0, 1, 0, all;\n\t}"
        : "=r"(result)
        : "r"(static_cast<Word32>(vote))
        : "memory");
    return result != 0;
  }
  /// Two places in turn: one is used again only two barriers later, when all have read it.
  TUTTI_DEVICE Word64 broadcast(Word64 value, Word32 from) {
    __shared__ Word64 places[2];
    turn_ ^= 1;
    if (rank() == from) places[turn_] = value;
    barrier();
    return places[turn_];
  }
  TUTTI_DEVICE Word64 timer_ns() const {
    Word64 value;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(value));
    return value;
  }
  TUTTI_DEVICE void pause() { asm volatile("nanosleep.u32 20;" ::: "memory"); }

 private:
  Word32 turn_ = 0;
};

/// What order.h is made of; the orders are argued there.
namespace native {

// One function for each width, since PTX names it.
#define TUTTI_LOAD(name, order, type, suffix, constraint)                                           \
  TUTTI_DEVICE type name(const type* at) {                                                          \
    type value;                                                                                     \
    asm volatile("ld." order "." suffix " %0, [%1];" : "=" constraint(value) : "l"(at) : "memory"); \
    return value;                                                                                   \
  }
#define TUTTI_STORE(name, order, type, suffix, constraint)                                     \
  TUTTI_DEVICE void name(type* at, type value) {                                               \
    asm volatile("st." order "." suffix " [%0], %1;" ::"l"(at), constraint(value) : "memory"); \
  }
TUTTI_LOAD(load_relaxed, "relaxed.sys", Word32, "u32", "r")
TUTTI_LOAD(load_relaxed, "relaxed.sys", Word64, "u64", "l")
TUTTI_LOAD(load_acquire, "acquire.sys", Word32, "u32", "r")
TUTTI_LOAD(load_acquire, "acquire.sys", Word64, "u64", "l")
TUTTI_LOAD(load_acquire_on_device, "acquire.gpu", Word32, "u32", "r")
TUTTI_LOAD(load_acquire_on_device, "acquire.gpu", Word64, "u64", "l")
TUTTI_STORE(store_release, "release.sys", Word32, "u32", "r")
TUTTI_STORE(store_release, "release.sys", Word64, "u64", "l")
TUTTI_STORE(store_relaxed, "relaxed.sys", Word32, "u32", "r")
TUTTI_STORE(store_relaxed, "relaxed.sys", Word64, "u64", "l")
TUTTI_STORE(store_release_on_device, "release.gpu", Word32, "u32", "r")
TUTTI_STORE(store_release_on_device, "release.gpu", Word64, "u64", "l")
#undef TUTTI_LOAD
#undef TUTTI_STORE

TUTTI_DEVICE Word32 add_on_device(Word32* at, Word32 value) {
  Word32 before;
  asm volatile("atom.acq_rel.gpu.add.u32 %0, [%1], %2;" : "=r"(before) : "l"(at), "r"(value) : "memory");
  return before;
}
TUTTI_DEVICE Word32 swap_on_device(Word32* at, Word32 expected, Word32 wanted) {
  Word32 before;
  asm volatile("atom.acquire.gpu.cas.b32 %0, [%1], %2, %3;"
               : "=r"(before)
               : "l"(at), "r"(expected), "r"(wanted)
               : "memory");
  return before;
}
TUTTI_DEVICE Word64 add_on_device(Word64* at, Word64 value) {
  Word64 before;
  asm volatile("atom.acq_rel.gpu.add.u64 %0, [%1], %2;" : "=l"(before) : "l"(at), "l"(value) : "memory");
  return before;
}
TUTTI_DEVICE Word64 swap_on_device(Word64* at, Word64 expected, Word64 wanted) {
  Word64 before;
  asm volatile("atom.acquire.gpu.cas.b64 %0, [%1], %2, %3;"
               : "=l"(before)
               : "l"(at), "l"(expected), "l"(wanted)
               : "memory");
  return before;
}
TUTTI_DEVICE void load_pair(const Word64* at, Word64& first, Word64& second) {
  asm volatile("ld.relaxed.sys.v2.b64 {%0, %1}, [%2];" : "=l"(first), "=l"(second) : "l"(at) : "memory");
}
TUTTI_DEVICE void store_pair(Word64* at, Word64 first, Word64 second) {
  asm volatile("st.relaxed.sys.v2.b64 [%0], {%1, %2};" ::"l"(at), "l"(first), "l"(second) : "memory");
}

}  // namespace native
}  // namespace tutti::device
