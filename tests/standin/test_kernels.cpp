// libstandin_kernels.so: the kernels of the driver's own tests.
#include <atomic>
#include <cstring>

#include "tests/standin/kernels.h"

namespace standin {
namespace {

template <typename T>
T argument(void** parameters, int at) {
  T value;
  std::memcpy(&value, parameters[at], sizeof(value));
  return value;
}

/// First element of this thread, and how far it is to its next.
std::uint64_t first(const KernelThread& self) { return self.block * std::uint64_t{self.threads} + self.thread; }
std::uint64_t stride(const KernelThread& self) { return self.blocks * std::uint64_t{self.threads}; }

/// add(int* out, const int* a, const int* b, uint64 count)
void add(KernelThread& self, void** parameters) {
  auto* const out = argument<std::int32_t*>(parameters, 0);
  const auto* const a = argument<const std::int32_t*>(parameters, 1);
  const auto* const b = argument<const std::int32_t*>(parameters, 2);
  const auto count = argument<std::uint64_t>(parameters, 3);
  for (std::uint64_t i = first(self); i < count; i += stride(self)) out[i] = a[i] + b[i];
}

/// copy(uint8* to, const uint8* from, uint64 bytes)
void copy(KernelThread& self, void** parameters) {
  auto* const to = argument<unsigned char*>(parameters, 0);
  const auto* const from = argument<const unsigned char*>(parameters, 1);
  const auto bytes = argument<std::uint64_t>(parameters, 2);
  for (std::uint64_t i = first(self); i < bytes; i += stride(self)) to[i] = from[i];
}

/// spin(uint32* word, uint32 value): until the word has the value.
void spin(KernelThread& self, void** parameters) {
  const std::atomic_ref word(*argument<std::uint32_t*>(parameters, 0));
  const auto value = argument<std::uint32_t>(parameters, 1);
  // Acquire: what was written before the word is seen after.
  while (word.load(std::memory_order_acquire) != value) self.pause();
}

/// count_blocks(uint32* count, uint32 wanted): every block adds one, and stays until so many have.
void count_blocks(KernelThread& self, void** parameters) {
  const std::atomic_ref count(*argument<std::uint32_t*>(parameters, 0));
  const auto wanted = argument<std::uint32_t>(parameters, 1);
  if (self.thread == 0) count.fetch_add(1, std::memory_order_acq_rel);  // both: blocks that meet have seen each other
  while (count.load(std::memory_order_acquire) < wanted) self.pause();
}

/// order(uint32* next, uint32* order): each block writes its number into the next place.
void order(KernelThread& self, void** parameters) {
  if (self.thread != 0) return;
  const std::atomic_ref next(*argument<std::uint32_t*>(parameters, 0));
  // Relaxed: places are told apart by the count alone, and read after the kernel.
  argument<std::uint32_t*>(parameters, 1)[next.fetch_add(1, std::memory_order_relaxed)] = self.block;
}

/// block_sum(uint64* out, uint64 rounds): what barrier, vote, broadcast and storage are for. Every thread puts its number
/// into the block's storage, all add up what lies there, and the sums are compared.
void block_sum(KernelThread& self, void** parameters) {
  auto* const out = argument<std::uint64_t*>(parameters, 0);
  const auto rounds = argument<std::uint64_t>(parameters, 1);
  auto* const mine = static_cast<std::uint64_t*>(self.shared);
  std::uint64_t total = 0;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    mine[self.thread] = self.thread + round;
    self.barrier();
    std::uint64_t sum = 0;
    for (std::uint32_t i = 0; i < self.threads; ++i) sum += mine[i];
    const std::uint64_t agreed = self.broadcast(sum, static_cast<std::uint32_t>(round % self.threads));
    if (self.any(agreed != sum) || self.any(self.thread == 0) != true) return;
    total += agreed;
  }
  if (self.thread == 0) out[self.block] = total;
}

/// broken_sum: as block_sum's first step without the barrier, for whoever looks whether the thread sanitizer sees it.
void broken_sum(KernelThread& self, void** parameters) {
  auto* const out = argument<std::uint64_t*>(parameters, 0);
  auto* const mine = static_cast<std::uint64_t*>(self.shared);
  mine[self.thread] = self.thread;
  std::uint64_t sum = 0;
  for (std::uint32_t i = 0; i < self.threads; ++i) sum += mine[i];
  self.barrier();
  if (self.thread == 0) out[self.block] = sum;
}

/// store(uint64 address, uint32 value): to wherever it is told.
void store(KernelThread& self, void** parameters) {
  if (self.thread == 0) **static_cast<std::uint32_t**>(parameters[0]) = argument<std::uint32_t>(parameters, 1);
}

constexpr std::uint32_t kWords = 8;
constexpr std::uint32_t kAdd[] = {kWords, kWords, kWords, 8};
constexpr std::uint32_t kCopy[] = {kWords, kWords, 8};
constexpr std::uint32_t kWordAndValue[] = {kWords, 4};
constexpr std::uint32_t kTwo[] = {kWords, kWords};
constexpr std::uint32_t kOne[] = {kWords};
constexpr std::uint32_t kStorage = 1024;

constexpr Kernel kKernels[] = {
    {"add", add, kAdd, 4, 0},
    {"copy", copy, kCopy, 3, 0},
    {"spin", spin, kWordAndValue, 2, 0},
    {"count_blocks", count_blocks, kWordAndValue, 2, 0},
    {"order", order, kTwo, 2, 0},
    {"block_sum", block_sum, kTwo, 2, kStorage},
    {"broken_sum", broken_sum, kOne, 1, kStorage},
    {"store", store, kWordAndValue, 2, 0},
};
constexpr KernelTable kTable = {kKernelTableVersion, sizeof(kKernels) / sizeof(kKernels[0]), kKernels};

}  // namespace
}  // namespace standin

extern "C" __attribute__((visibility("default"))) const standin::KernelTable* standin_kernel_table();
const standin::KernelTable* standin_kernel_table() { return &standin::kTable; }
