#include "tests/standin/blocks.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <numeric>

#include "tests/standin/faults.h"
#include "tests/standin/pool.h"
#include "tests/standin/queues.h"
#include "tests/support/pause.h"

namespace standin {
namespace {

/// Leaves a kernel whose context is lost.
struct KernelEnded {};

/// What the threads of one block share.
class Block {
 public:
  Block(Device& device, std::shared_ptr<Run> run, std::uint32_t index)
      : device_(device),
        run_(std::move(run)),
        index_(index),
        storage_((shared_bytes() + sizeof(Unit) - 1) / sizeof(Unit)),
        left_(threads()) {}

  const Launch& launch() const { return *run_->launch; }
  const Context& context() const { return *run_->operation->context; }
  std::uint32_t index() const { return index_; }
  std::uint32_t threads() const { return run_->launch->threads; }
  std::size_t shared_bytes() const { return run_->launch->kernel->shared_bytes + run_->launch->dynamic_shared_bytes; }
  void* shared() { return storage_.data(); }

  /// Ends the block's other threads at their next barrier or pause.
  void end() {
    ended_.store(true, std::memory_order_relaxed);  // relaxed: the release below publishes it to who waits
    generation_.fetch_add(1, std::memory_order_release);
    generation_.notify_all();
  }
  /// Relaxed: who sees it leaves, and concludes nothing else.
  bool ended() const { return ended_.load(std::memory_order_relaxed); }

  /// The generation that this barrier ended. Votes and values lie in the slot of its parity, which is used again only two
  /// barriers later, when all have read it.
  std::uint32_t arrive_and_wait() {
    // Acquire, here and below: pairs with the last thread's release, behind which lies what all threads wrote before.
    const std::uint32_t before = generation_.load(std::memory_order_acquire);
    // Acquire and release: the last to arrive has seen all the others' writes when it releases them.
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == threads()) {
      votes_[(before + 1) % 2].store(false, std::memory_order_relaxed);  // relaxed: the release below publishes it
      arrived_.store(0, std::memory_order_relaxed);                      // relaxed: likewise
      generation_.fetch_add(1, std::memory_order_release);
      generation_.notify_all();
    } else {
      for (int spin = 0; spin < 100 && generation_.load(std::memory_order_acquire) == before; ++spin)
        std::this_thread::yield();
      generation_.wait(before, std::memory_order_acquire);
    }
    if (ended()) throw KernelEnded();
    return before;
  }
  /// Relaxed: the barrier behind it orders all of these.
  void vote() { votes_[generation_.load(std::memory_order_relaxed) % 2].store(true, std::memory_order_relaxed); }
  bool voted(std::uint32_t generation) const { return votes_[generation % 2].load(std::memory_order_relaxed); }
  void give(std::uint64_t value) { values_[generation_.load(std::memory_order_relaxed) % 2] = value; }
  std::uint64_t given(std::uint32_t generation) const { return values_[generation % 2]; }

  /// One thread less. With the lock.
  void leave(DriverResult result) {
    if (result != DriverResult::success) lose(*run_->operation->context, result);
    if (--left_ == 0) end_block();
  }

 private:
  struct alignas(16) Unit {
    unsigned char bytes[16];
  };

  void end_block();

  Device& device_;
  const std::shared_ptr<Run> run_;
  const std::uint32_t index_;
  std::vector<Unit> storage_;
  std::uint32_t left_;
  std::atomic<std::uint32_t> arrived_{0};
  std::atomic<std::uint32_t> generation_{0};
  std::atomic<bool> ended_{false};
  std::atomic<bool> votes_[2] = {false, false};
  std::uint64_t values_[2] = {0, 0};
};

class BlockThread final : public tutti::device::HostThread {
 public:
  BlockThread(Block& own, std::uint32_t index) : block_(own) {
    thread = index;
    threads = own.threads();
    block = own.index();
    blocks = own.launch().blocks;
    shared = own.shared();
    shared_bytes = own.shared_bytes();
  }
  ~BlockThread() = default;

  void barrier() override { block_.arrive_and_wait(); }
  bool any(bool vote) override {
    if (vote) block_.vote();
    return block_.voted(block_.arrive_and_wait());
  }
  std::uint64_t broadcast(std::uint64_t value, std::uint32_t from) override {
    if (thread == from) block_.give(value);
    return block_.given(block_.arrive_and_wait());
  }
  std::uint64_t timer_ns() override { return now_ns(); }
  void pause() override {
    pause_();
    // Relaxed: see Context::lost.
    if (block_.ended() || block_.context().lost.load(std::memory_order_relaxed)) throw KernelEnded();
  }

 private:
  Block& block_;
  tutti::testing::Pause pause_;
};

/// One thread's part of a block.
void run_thread(const std::shared_ptr<Block>& block, std::uint32_t index, std::chrono::microseconds delay) {
  if (delay.count() > 0) std::this_thread::sleep_for(delay);
  std::vector<std::vector<unsigned char>> parameters = block->launch().parameters;
  std::vector<void*> pointers;
  for (auto& each : parameters) pointers.push_back(each.data());
  const bool whole = guarded([&] {
    try {
      BlockThread self(*block, index);
      block->launch().kernel->function(self, pointers.data());
    } catch (const KernelEnded&) {
      block->end();  // the others may wait for this one at a barrier
    }
  });
  if (!whole) {
    pool().let_this_thread_in(
        true);  // a signal takes a thread's keys, and a jump out of its handler does not bring them back
    block->end();
  }
  const Lock lock(state().lock);
  block->leave(whole ? DriverResult::success : DriverResult::illegal_address);
}

/// Threads that run blocks: as many as there have ever been at one time, used again.
class Workers {
 public:
  /// With the lock.
  void run(std::function<void()> task) {
    tasks_.push_back(std::move(task));
    if (tasks_.size() > idle_) {
      ++state().threads;
      std::thread([this] { serve(); }).detach();
    }
    wanted_.notify_one();
  }

 private:
  void serve() {
    pool().let_this_thread_in(true);
    Lock lock(state().lock);
    while (true) {
      ++idle_;
      wanted_.wait(lock, [this] { return !tasks_.empty(); });
      --idle_;
      const std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
      lock.lock();
    }
  }

  std::deque<std::function<void()>> tasks_;
  std::size_t idle_ = 0;  ///< threads that wait: those just started are not counted, so a few too many may be
  std::condition_variable wanted_;
};

Workers& workers() {
  static Workers& only = *new Workers;
  return only;
}

void start_block(Device& device, const std::shared_ptr<Run>& run, std::uint32_t index) {
  const auto block = std::make_shared<Block>(device, run, index);
  ++device.resident;
  device.most_resident = std::max(device.most_resident, device.resident);
  for (std::uint32_t thread = 0; thread < run->launch->threads; ++thread) {
    const std::chrono::microseconds delay(draw(8) == 0 ? draw(300) : 0);
    workers().run([block, thread, delay] { run_thread(block, thread, delay); });
  }
}

/// Whether a run has no block left to start: all have been, or its context is lost.
bool is_issued(Run& run) {
  if (run.operation->context->error != DriverResult::success) {
    run.ended += run.order.size() - run.started;
    run.started = run.order.size();
    if (run.ended == run.order.size()) finish(run.operation, DriverResult::success);
  }
  return run.started == run.order.size();
}

/// Starts what fits, first come first served.
void start_blocks(Device& device) {
  const Configuration& configuration = state().configuration;
  while (!device.runs.empty() && device.resident < configuration.sms * configuration.blocks_per_sm) {
    const std::shared_ptr<Run> run = device.runs.front();
    if (is_issued(*run)) {
      device.runs.pop_front();
      continue;
    }
    start_block(device, run, run->order[run->started++]);
  }
  state().changed.notify_all();
}

void Block::end_block() {
  --device_.resident;
  if (++run_->ended == run_->order.size()) finish(run_->operation, DriverResult::success);
  start_blocks(device_);
}

}  // namespace

std::shared_ptr<Run> issue(Device& device, const OperationPtr& operation) {
  auto run = std::make_shared<Run>();
  run->operation = operation;
  run->launch = operation->launch;
  run->order.resize(operation->launch->blocks);
  std::iota(run->order.begin(), run->order.end(), 0u);
  std::shuffle(run->order.begin(), run->order.end(), state().random);
  device.runs.push_back(run);
  start_blocks(device);
  return run;
}

}  // namespace standin
