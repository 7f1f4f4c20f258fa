// Memory that peers may map: what tutti_memory_alloc gave out, and which of it a communicator's endpoints have registered.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "src/base/descriptor.h"
#include "src/base/status.h"
#include "src/communicator/agent.h"
#include "src/executors/host/executor.h"

namespace tutti {

/// Memory of one tutti_memory_alloc. Ids are never used twice, so that an address that is given out again is not taken for
/// what was there before.
struct Allocation {
  std::uint64_t id = 0;
  std::byte* base = nullptr;
  std::uint64_t bytes = 0;
  std::shared_ptr<const Descriptor> file;  ///< null: memory like any other
  std::uint64_t forks = 0;                 ///< how often this process had forked by then

  bool holds(const void* data, std::uint64_t length) const;
};

/// All that this process has given out, and what it had when it was forked. Thread safe, and whole in a forked child,
/// whatever other threads did at the fork.
class RegisteredMemory {
 public:
  static RegisteredMemory& instance();
  /// Page-aligned and zero. It has a file that peers can map where the system allows one so long, and leaves half of its
  /// descriptors for others. Errors: TUTTI_SYSTEM_ERROR.
  Result<void*> allocate(std::size_t bytes);
  /// Gives the pages back to the system, also where a peer has them mapped, but not where a process forked since may use
  /// them: there only this process's view of them ends. Errors: TUTTI_INVALID_ARGUMENT for an address that was not given
  /// out. NULL is allowed.
  Status free(void* data);
  /// The allocation that [data, data + bytes) lies in, if it can be mapped by others.
  std::optional<Allocation> find(const void* data, std::uint64_t bytes) const;
  /// Changes with each allocation and each release; 0: there has been none.
  std::uint64_t changes() const { return changes_.load(std::memory_order_acquire); }  // acquire: pairs with `changed`

 private:
  struct Owned {
    Allocation allocation;
    Mapping mapping;
  };
  RegisteredMemory() = default;
  static RegisteredMemory* create();
  void changed();

  mutable std::mutex mutex_;
  std::map<const std::byte*, Owned> owned_;  ///< by base
  std::uint64_t ids_ = 0;
  std::uint64_t forks_ = 0;
  std::atomic<std::uint64_t> changes_{0};
};

/// What some endpoints know of that memory, registered when a call first uses it and given up after it was freed. Used by
/// the thread that uses the endpoints, which must outlive it.
class Registrations {
 public:
  explicit Registrations(std::span<Endpoint> endpoints) : endpoints_(endpoints) {}
  ~Registrations();
  Registrations(const Registrations&) = delete;
  Registrations& operator=(const Registrations&) = delete;

  /// The buffers' regions by endpoint; empty where neither is registered memory. Valid until the next call. Never fails:
  /// what cannot be registered is memory like any other.
  std::span<const Regions> of(const void* input, std::uint64_t input_bytes, const void* output, std::uint64_t output_bytes);

 private:
  struct Known {
    Allocation allocation;
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

  std::span<Endpoint> endpoints_;
  std::list<Known> known_;
  Question last_;
  std::vector<Regions> answer_;  ///< to the last question
};

}  // namespace tutti
