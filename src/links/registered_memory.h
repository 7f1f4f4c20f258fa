// Memory that peers may map: what tutti_memory_alloc gave out, and which of it a communicator's endpoints have registered.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "src/base/status.h"
#include "src/base/unique_fd.h"
#include "src/executors/host/host_link.h"
#include "src/links/endpoint_group.h"

namespace tutti {

/// Memory that is mapped, registered and passed to peers as a whole; tutti_memory_alloc gives out blocks of its pages. Ids
/// are never used twice, so that an address that is mapped again is not taken for what was there before.
struct Arena {
  std::uint64_t id = 0;
  std::byte* base = nullptr;
  std::uint64_t bytes = 0;
  std::shared_ptr<const UniqueFd> file;  ///< null: memory without one

  bool holds(const void* data, std::uint64_t length) const;
};

/// Blocks up to this size share arenas of the size below, so that one descriptor serves many of them. A larger block has an
/// arena of its own, which ends with it. Few such blocks fit an arena, and one that stays would keep the others' file.
inline constexpr std::size_t largest_shared_block = std::size_t{16} << 20;
inline constexpr std::size_t shared_arena_bytes = std::size_t{64} << 20;

/// All blocks that this process has allocated, and those that it had when it was forked. Thread safe, and whole in a forked
/// child, whatever other threads did at the fork.
///
/// A freed block returns its pages to the system at once, which makes them zero, and later blocks get its range. The range
/// is retired instead, while its arena lives, where somebody else may still use it. These are processes that were forked
/// while the block was allocated, and peers that a failed call could not stop (`quarantine`). An arena lives until its last
/// block is freed.
class RegisteredMemory {
 public:
  static RegisteredMemory& instance();
  /// Page-aligned and zero. Peers can map the block's file. There is none where the system allows none so long, or where
  /// half of the process's descriptors are taken. Errors: TUTTI_SYSTEM_ERROR.
  Result<void*> allocate(std::size_t bytes);
  /// Returns the pages to the system, also where peers have them mapped, but not where a process forked since may use them.
  /// Takes no memory. Errors: TUTTI_INVALID_ARGUMENT for an address that is no block's. NULL is allowed.
  Status free(void* data);
  /// A peer may write into the block that `data` lies in at any time: once freed, its range is not given out again. Nothing
  /// happens where `data` lies in no block.
  void quarantine(const void* data);
  /// Takes [base, base + bytes), which is the caller's, for memory to be registered. Its id, for `withdraw`. Throws
  /// std::bad_alloc.
  std::uint64_t add(std::byte* base, std::uint64_t bytes);
  void withdraw(std::uint64_t id);
  /// The arena that [data, data + bytes) lies in, if peers can map it, or the range that `add` was given.
  std::optional<Arena> find(const void* data, std::uint64_t bytes) const;
  /// Changes with each arena that is mapped or unmapped; 0: there has been none. Blocks that come and go in an arena change
  /// no answer of `find`.
  std::uint64_t changes() const { return changes_.load(std::memory_order_acquire); }  // acquire: pairs with `changed`

 private:
  struct Owned {
    Arena arena;
    Mapping mapping;
    std::size_t blocks = 0;  ///< allocated
  };
  /// By size, then by address: the first one that is large enough fits best.
  using BySize = std::set<std::pair<std::size_t, std::byte*>>;
  enum class Use : std::uint8_t { allocated, quarantined, free, retired };
  /// Neighbouring pages of one arena with one use. Extents cover each arena without a gap, and no two free ones touch.
  struct Extent {
    std::size_t bytes = 0;
    Owned* owner = nullptr;
    Use use = Use::free;
    std::uint64_t forks = 0;  ///< how often this process had forked when it was allocated
    BySize::node_type node;   ///< what free_ holds while it is free, so that `free` needs no memory
  };
  using Extents = std::map<std::byte*, Extent, std::less<>>;

  RegisteredMemory() = default;
  static std::unique_ptr<RegisteredMemory> create();
  void changed();
  Result<BySize::iterator> add_arena(std::size_t block_bytes);
  void add_free(std::byte* base, std::size_t bytes, Owned& owner);
  void give_back(Extents::iterator extent);
  void remove_arena(const Owned& owned);

  mutable std::mutex mutex_;
  std::map<const std::byte*, Owned> arenas_;  ///< by base
  std::map<std::uint64_t, Arena> added_;      ///< by id: callers' ranges
  Extents extents_;                           ///< of all arenas, by base
  BySize free_;                               ///< extents that may be given out
  std::uint64_t ids_ = 0;
  std::uint64_t forks_ = 0;
  std::atomic<std::uint64_t> changes_{0};
};

/// The arenas that some endpoints know. Each is registered when a call first uses a block of it, and given up after it was
/// unmapped. The group must outlive it.
class Registrations {
 public:
  explicit Registrations(EndpointGroup& group) : group_(group), endpoints_(group.endpoints) {}
  /// Takes a turn of its own.
  ~Registrations();
  Registrations(const Registrations&) = delete;
  Registrations& operator=(const Registrations&) = delete;

  /// The buffers' regions by endpoint; empty where neither is registered memory. Valid until the next call. Never fails:
  /// what cannot be registered is memory like any other. Within a turn.
  std::span<const Regions> of(const void* input, std::uint64_t input_bytes, const void* output, std::uint64_t output_bytes);

 private:
  struct Known {
    Arena arena;
    std::vector<tutti_region> regions;  ///< by endpoint; size 0: not registered there
  };
  /// What the answer depends on.
  struct Question {
    const void* input = nullptr;
    std::uint64_t input_bytes = 0;
    const void* output = nullptr;
    std::uint64_t output_bytes = 0;
    std::uint64_t changes = 0;
    bool operator==(const Question&) const = default;
  };
  void forget_freed();
  const Known* known(const void* data, std::uint64_t bytes);
  void unregister(Known& known);

  EndpointGroup& group_;
  std::span<OpenEndpoint> endpoints_;                                  ///< the group's
  std::map<std::pair<const std::byte*, std::uint64_t>, Known> known_;  ///< by base and id: callers' ranges may overlap
  Question last_;
  std::vector<Regions> answer_;  ///< to the last question
};

}  // namespace tutti
