// A world of transfer engines without threads, clocks and transports: the real engine over links of a few slots, whose
// turns and whose time the test gives. See stubs/ for what stands in the place of the rest.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "src/point_to_point/engine.h"

namespace tutti {

/// Nanoseconds that have passed in the model; every clock of the process shows them while a world exists.
extern std::uint64_t model_now;

/// The allocation after so many fails, once; -1: none.
extern long allocations_left;

/// Takes the engine's turns.
struct EngineTurns {
  /// One turn of whoever makes progress.
  static void step(TransferEngine& engine);
  /// Whether its thread would make progress.
  static bool is_wanted(const TransferEngine& engine) { return engine.pending_.load() != 0; }
  static std::size_t ghosts(const TransferEngine& engine) { return engine.ghosts_; }
  /// Items that looks at deadlines have touched.
  static std::uint64_t steps(const TransferEngine& engine) { return engine.under_way_.steps(); }
  /// Nothing is left of any transfer.
  static bool is_empty(const TransferEngine& engine);
};

/// A link of a few slots, in both ends' sight.
struct ModelLink {
  struct Message {
    std::vector<std::byte> bytes;
    std::uint64_t word;
  };
  std::deque<Message> messages;
  std::size_t slots = 4;
  std::vector<std::byte> room;
  bool keeps = false;   ///< it has not flushed before all is taken
  bool broken = false;  ///< the receiver has left
};

/// A transfer that was posted, with its memory.
struct Posted {
  std::vector<std::byte> memory;
  Transfer transfer;
  std::shared_ptr<Work> work;

  /// TUTTI_IN_PROGRESS while it is.
  tutti_status end() const;
  /// The number in its first bytes.
  std::uint32_t number() const;
};

/// What a transfer is posted with.
struct Asked {
  int peer = 0;
  std::uint64_t tag = 0;
  std::size_t bytes = 8;
  std::uint32_t number = 0;  ///< a send's first bytes
  std::uint64_t soft_ns = 0;
  std::uint64_t limit_ns = 0;
};

class TransferWorld {
 public:
  static constexpr std::uint64_t usual_limit_ns = 30'000'000'000;

  explicit TransferWorld(int ranks, std::uint64_t longest_eager = 64 * 1024);
  ~TransferWorld();
  TransferWorld(const TransferWorld&) = delete;
  TransferWorld& operator=(const TransferWorld&) = delete;

  int ranks() const { return static_cast<int>(engines_.size()); }
  TransferEngine& engine(int rank) { return *engines_[static_cast<std::size_t>(rank)]; }
  ModelLink& link(int from, int to) { return links_[static_cast<std::size_t>(from * ranks_ + to)]; }
  Status failure(int rank) const { return failures_[static_cast<std::size_t>(rank)].first_error(); }
  std::atomic<std::uint64_t>& limit_ns() { return limit_ns_; }

  std::unique_ptr<Posted> send(int rank, const Asked& asked) { return post(rank, true, asked); }
  std::unique_ptr<Posted> receive(int rank, const Asked& asked) { return post(rank, false, asked); }
  /// Turns of a rank whose program is within the library.
  void step(int rank, int turns = 1);
  /// Turns of a rank whose program computes: its engine's own thread takes them, if it has anything to do.
  void rest(int rank, int turns = 1);
  /// `turns` of each rank, all within the library.
  void step_all(int turns);
  static void pass(std::uint64_t ns) { model_now += ns; }

 private:
  std::unique_ptr<Posted> post(int rank, bool sends, const Asked& asked);
  HostLink& end_of(int from, int to, bool sends);

  const int ranks_;
  std::atomic<std::uint64_t> limit_ns_{usual_limit_ns};
  OperationCount operations_;
  WaitPolicy policy_;
  std::vector<ModelLink> links_;
  std::vector<HostLink> sending_, receiving_;  ///< as links_
  std::vector<Transports> transports_;
  std::vector<FailureState> failures_;
  std::vector<std::unique_ptr<TransferEngine>> engines_;
};

}  // namespace tutti
