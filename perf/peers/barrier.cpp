#include "perf/peers/barrier.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <ctime>

#include "perf/measure.h"

namespace tutti::perf {
namespace {

constexpr size_t kPage = 4096;
constexpr uint64_t kLimit = 100'000'000'000;  // ns

}  // namespace

Barrier::~Barrier() {
  if (shared_ != nullptr) munmap(shared_, kPage);
}

std::string Barrier::open(const std::string& path, int ranks, bool oversubscribed) {
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0 || ftruncate(file, kPage) != 0) return "cannot make " + path + ": " + std::strerror(errno);
  void* mapped = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (mapped == MAP_FAILED) return "cannot map " + path + ": " + std::strerror(errno);
  shared_ = static_cast<Shared*>(mapped);  // a new file reads as zeros, which is where both counters begin
  ranks_ = static_cast<uint32_t>(ranks);
  oversubscribed_ = oversubscribed;
  return "";
}

void Barrier::pause(Wait wait, uint64_t turn) const {
  if (wait == Wait::kQuiet && turn > 100) {
    const timespec nap = {0, 20'000};
    nanosleep(&nap, nullptr);
  } else if (oversubscribed_ || turn > 100'000) {
    sched_yield();
  }
}

bool Barrier::arrive_and_wait(Wait wait) {
  // Relaxed: the generation cannot change before this rank, too, has arrived.
  const uint32_t generation = shared_->generation.load(std::memory_order_relaxed);
  // Acquire and release: the last to come has seen what all did before they came, and hands it on by the generation.
  if (shared_->arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == ranks_) {
    // Relaxed: nobody arrives again before it has seen the new generation, whose release covers this store.
    shared_->arrived.store(0, std::memory_order_relaxed);
    shared_->generation.store(generation + 1, std::memory_order_release);
    return true;
  }
  const uint64_t start = now_ns();
  // Acquire: pairs with the release of the last to come.
  for (uint64_t turn = 1; shared_->generation.load(std::memory_order_acquire) == generation; ++turn) {
    pause(wait, turn);
    if (turn % 4096 == 0 && now_ns() - start > kLimit) return false;
  }
  return true;
}

}  // namespace tutti::perf
