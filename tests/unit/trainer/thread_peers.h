// Ranks as threads of one process, without libtutti: what training tests run on.
#pragma once

#include <algorithm>
#include <barrier>
#include <cstring>
#include <list>
#include <span>
#include <thread>
#include <vector>

#include "trainer/peers.h"

namespace tutti::trainer {

/// Memory that all ranks of one test share.
struct ThreadWorld {
  explicit ThreadWorld(int ranks) : size(ranks), meet(ranks), posted(static_cast<std::size_t>(ranks)) {}
  int size;
  std::barrier<> meet;
  std::vector<const void*> posted;
};

/// Sums in rank order, so that every rank gets the same bits. `operations` counts the started sums, `elements` their sizes.
class ThreadPeers : public Peers {
 public:
  ThreadPeers(ThreadWorld& world, int rank) : world_(world), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return world_.size; }

  Fallible<std::span<float>> memory(std::size_t count) override {
    memory_.emplace_back(count);
    return std::span(memory_.back());
  }
  TrainingOutcome start_sum(std::size_t slot, std::span<float> data, std::size_t operands) override {
    if (slot >= slots_.size()) slots_.resize(slot + 1);
    slots_[slot] = data;
    parts_ = std::max<std::size_t>(1, operands / static_cast<std::size_t>(size()));
    ++operations;
    elements += data.size();
    return {};
  }
  TrainingOutcome wait(std::size_t slot) override {
    add_up(slots_[slot], parts_);
    return {};
  }
  TrainingOutcome sum(std::span<double> values) override {
    add_up(values);
    return {};
  }
  TrainingOutcome gather(const void* mine, std::size_t bytes, void* all) override {
    world_.posted[static_cast<std::size_t>(rank_)] = mine;
    world_.meet.arrive_and_wait();
    for (std::size_t r = 0; r < world_.posted.size(); ++r)
      std::memcpy(static_cast<char*>(all) + r * bytes, world_.posted[r], bytes);
    world_.meet.arrive_and_wait();
    return {};
  }
  TrainingOutcome broadcast(void* data, std::size_t bytes) override {
    world_.posted[static_cast<std::size_t>(rank_)] = data;
    world_.meet.arrive_and_wait();
    if (rank_ != 0) std::memcpy(data, world_.posted[0], bytes);
    world_.meet.arrive_and_wait();
    return {};
  }
  double communication_seconds() const override { return 0; }

  std::size_t operations = 0;
  std::size_t elements = 0;

 private:
  /// parts: arrays of the data's size that each rank has, one behind the other.
  template <typename T>
  void add_up(std::span<T> data, std::size_t parts = 1) {
    world_.posted[static_cast<std::size_t>(rank_)] = data.data();
    world_.meet.arrive_and_wait();
    std::vector<T> total(data.size());
    for (const void* values : world_.posted) {
      for (std::size_t i = 0; i < parts * total.size(); ++i) total[i % total.size()] += static_cast<const T*>(values)[i];
    }
    world_.meet.arrive_and_wait();
    std::copy(total.begin(), total.end(), data.begin());
  }

  ThreadWorld& world_;
  int rank_;
  std::list<std::vector<float>> memory_;
  std::vector<std::span<float>> slots_;
  std::size_t parts_ = 1;
};

/// Runs `body` on each of `ranks` threads, with peers of this kind.
template <typename Kind = ThreadPeers, typename Body>
void on_ranks(int ranks, const Body& body) {
  ThreadWorld world(ranks);
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r) {
    threads.emplace_back([&world, &body, r] {
      Kind peers(world, r);
      body(peers);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace tutti::trainer
