// What tests can tell the stand-in driver and ask of it, besides what the STANDIN_ variables say at its start. A real
// driver has none of these symbols, by which a test knows the two apart.
#pragma once

#include <cstdint>

extern "C" {

/// Replaces the orders of STANDIN_FAIL: "entry:n[:error]", separated by commas; the n-th call from now on of that entry
/// point fails with that CUresult, CUDA_ERROR_OUT_OF_MEMORY by default. A sticky error loses the current context, too. n 0:
/// every call. "" ends it. Whether it was understood.
__attribute__((visibility("default"))) bool standin_fail(const char* orders);

/// Sets one of SMS, BLOCKS_PER_SM, QUEUES, SEED, THREADS, LINKS for what is launched and created from now on. Whether it
/// was understood.
__attribute__((visibility("default"))) bool standin_set(const char* name, const char* value);

/// How often an entry point was called in this process, those that failed included.
__attribute__((visibility("default"))) std::uint64_t standin_calls(const char* entry);

/// How many handles and ranges of memory are alive: what a program that releases all it took returns to.
__attribute__((visibility("default"))) std::uint64_t standin_live();

/// How many threads it has started that stay: those of queues and of blocks, as many as were ever busy at one time.
__attribute__((visibility("default"))) std::uint64_t standin_threads();

/// The most blocks that were resident on a device at one time since this was asked last.
__attribute__((visibility("default"))) std::uint64_t standin_most_resident(int device);

/// Whether device memory has a protection key, so that host code that touches it faults.
__attribute__((visibility("default"))) bool standin_protects();
}
