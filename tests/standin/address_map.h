// Which memory lies at an address, whose it is, and which device may use it.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "tests/standin/state.h"

namespace standin {

/// Physical memory of cuMemCreate, or what another process exported: a file that lives while somebody maps it.
struct Physical {
  Physical(int file, std::size_t size, const AllocationProperties& given)
      : descriptor(file), bytes(size), properties(given) {}
  Physical(const Physical&) = delete;
  Physical& operator=(const Physical&) = delete;
  ~Physical();

  int descriptor;
  std::size_t bytes;
  AllocationProperties properties;
  Device* device = nullptr;  ///< whose memory it takes; nullptr: another process's
  unsigned handles = 1;      ///< by cuMemCreate, import and retain, less cuMemRelease
};

enum class RangeKind { device, async, managed, pinned, registered, mapped, imported };

/// Memory in one piece, as cuMemGetAddressRange means it.
struct Range {
  std::uintptr_t base = 0;
  std::size_t bytes = 0;
  RangeKind kind = RangeKind::device;
  int device = 0;  ///< whose it is
  std::shared_ptr<Context> context;
  int descriptor = -1;                 ///< its file, closed with it; -1: none, or Physical's
  std::shared_ptr<Physical> physical;  ///< of mapped memory
  std::size_t offset = 0;              ///< therein
  std::map<int, AccessFlags> access;   ///< of mapped memory, by device
  std::uint64_t id = 0;
  bool sync_memops = false;
  bool freed = false;  ///< in stream order, by cuMemFreeAsync

  bool on_host() const { return kind == RangeKind::pinned || kind == RangeKind::registered; }
};

/// All memory that the driver knows. Guarded by the state's lock.
class AddressMap {
 public:
  /// The range that has this address; nullptr: memory that the driver does not know.
  std::shared_ptr<Range> find(std::uintptr_t address) const;
  void add(std::shared_ptr<Range> range);
  void remove(std::uintptr_t base);
  /// Whether any range touches these bytes.
  bool overlaps(std::uintptr_t address, std::size_t bytes) const;
  /// The ranges that start within these bytes.
  std::vector<std::shared_ptr<Range>> within(std::uintptr_t address, std::size_t bytes) const;
  /// Frees what a context that is destroyed has allocated.
  void drop(const Context& context);
  std::size_t size() const { return ranges_.size(); }

 private:
  std::map<std::uintptr_t, std::shared_ptr<Range>> ranges_;
};

AddressMap& address_map();

/// Frees a range's addresses and file; a file that others map is emptied first, so that their accesses fault.
void free_range(const std::shared_ptr<Range>& range);

/// What an operation does with memory. Copies go through the host where devices do not reach each other, and take pageable
/// memory, which the driver does not know.
enum class Use { read, write, copy_from, copy_to };

/// Whether operations of this context may use all of these bytes so: CUDA_ERROR_ILLEGAL_ADDRESS where not.
DriverResult may_access(const Context& context, std::uintptr_t address, std::size_t bytes, Use use);

}  // namespace standin
