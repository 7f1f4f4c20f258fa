#include "src/links/registered_memory.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>

#include "src/base/link_shape.h"
#include "src/base/log.h"
#include "src/base/made_once.h"
#include "src/base/memory_file.h"

namespace tutti {
namespace {

/// Whether a file leaves half of the descriptors that this process may have: the system gives out the lowest free number,
/// so that all below it are taken. Communicators need theirs, and so does the program.
bool leaves_enough(const UniqueFd& file) {
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) != 0 || static_cast<rlim_t>(file.get()) < limit.rlim_cur / 2;
}

/// Sizes that cannot be rounded stay so long that the system refuses them.
std::size_t whole_pages(std::size_t bytes) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return (std::clamp<std::size_t>(bytes, 1, SIZE_MAX - page) + page - 1) / page * page;
}

struct Pages {
  UniqueFd file;
  Mapping mapping;  ///< empty: refused, errno says why
};

Pages map_pages(std::size_t bytes, UniqueFd file) {
  const int flags = file ? MAP_SHARED : MAP_SHARED | MAP_ANONYMOUS;
  void* const data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, file.get(), 0);
  if (data == MAP_FAILED) return {};
  // Fewer misses where the system allows it; where it does not, small pages serve as well.
  static_cast<void>(::madvise(data, bytes, MADV_HUGEPAGE));
  return {std::move(file), Mapping(data, bytes)};
}

/// Pages for a block of `bytes` and those that will share its arena. Where file sizes or the address space are limited, the
/// arena has an eighth of the usual size, and so on down to the block's own. Without a file the arena is the block.
Pages pages_for(std::size_t bytes) {
  for (std::size_t size = bytes > largest_shared_block ? bytes : shared_arena_bytes;; size = std::max(bytes, size / 8)) {
    auto file = create_memory("tutti-memory", size);
    if (file.ok() && !leaves_enough(*file)) break;
    if (file.ok()) {
      if (Pages pages = map_pages(size, std::move(*file)); pages.mapping) return pages;
    }
    if (size == bytes) break;
  }
  return map_pages(bytes, UniqueFd());
}

/// Made when the library is loaded, so that no fork falls into its making.
[[maybe_unused]] const RegisteredMemory& made_early = RegisteredMemory::instance();

}  // namespace

bool Arena::holds(const void* data, std::uint64_t length) const {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  const auto begin = reinterpret_cast<std::uintptr_t>(base);
  return address >= begin && length <= bytes && address - begin <= bytes - length;
}

RegisteredMemory& RegisteredMemory::instance() {
  static constinit MadeOnce<std::unique_ptr<RegisteredMemory>> self;  // never destroyed: see there
  return *self.get(create);
}

/// A fork waits for whoever is at it, so that the child finds it whole and unlocked; and is counted, in both. The parent
/// goes on with what is free in its arenas; the child, which has the same pages, must leave it alone.
std::unique_ptr<RegisteredMemory> RegisteredMemory::create() {
  constexpr auto before = [] { instance().mutex_.lock(); };
  constexpr auto in_parent = [] {
    ++instance().forks_;
    instance().mutex_.unlock();
  };
  constexpr auto in_child = [] {
    instance().free_.clear();
    ++instance().forks_;
    instance().mutex_.unlock();
  };
  // Refused for want of memory only; then a child has to do without what this guards.
  static_cast<void>(::pthread_atfork(before, in_parent, in_child));
  return std::unique_ptr<RegisteredMemory>(new RegisteredMemory);
}

/// Release: whoever sees the new number finds the change under the lock, which it takes next.
void RegisteredMemory::changed() { changes_.fetch_add(1, std::memory_order_release); }

Result<void*> RegisteredMemory::allocate(std::size_t bytes) {
  const std::size_t size = whole_pages(bytes);
  const std::lock_guard lock(mutex_);
  auto fit = size > largest_shared_block ? free_.end() : free_.lower_bound({size, nullptr});
  if (fit == free_.end()) {
    auto added = add_arena(size);
    if (!added.ok()) return added.status();
    fit = *added;
  }
  const auto [whole, base] = *fit;
  Extent& extent = extents_.find(base)->second;
  if (whole > size) add_free(base + size, whole - size, *extent.owner);
  extent.node = free_.extract(fit);
  extent.bytes = size;
  extent.use = Use::allocated;
  extent.forks = forks_;
  ++extent.owner->blocks;
  return base;
}

/// Of one free extent: its entry in free_.
Result<RegisteredMemory::BySize::iterator> RegisteredMemory::add_arena(std::size_t block_bytes) {
  Pages pages = pages_for(block_bytes);
  if (!pages.mapping) {
    return system_error("memory of " + std::to_string(block_bytes) + " bytes could not be mapped", errno, "Free memory.");
  }
  Arena arena;
  arena.id = ++ids_;
  arena.base = static_cast<std::byte*>(pages.mapping.data());
  arena.bytes = pages.mapping.size();
  if (pages.file) arena.file = std::make_shared<const UniqueFd>(std::move(pages.file));
  std::map<const std::byte*, Owned> added;
  Owned& owned = added.emplace(arena.base, Owned{arena, std::move(pages.mapping)}).first->second;
  add_free(arena.base, arena.bytes, owned);
  arenas_.merge(added);
  changed();
  return free_.find({arena.bytes, arena.base});
}

/// All of it happens or, where memory is short, nothing: merging takes none.
void RegisteredMemory::add_free(std::byte* base, std::size_t bytes, Owned& owner) {
  BySize added{{bytes, base}};
  Extent extent;
  extent.bytes = bytes;
  extent.owner = &owner;
  extents_.emplace(base, std::move(extent));
  free_.merge(added);
}

Status RegisteredMemory::free(void* data) {
  if (data == nullptr) return {};
  const std::lock_guard lock(mutex_);
  const auto found = extents_.find(static_cast<std::byte*>(data));
  const bool allocated =
      found != extents_.end() && (found->second.use == Use::allocated || found->second.use == Use::quarantined);
  if (!allocated) {
    return Status(TUTTI_INVALID_ARGUMENT, "tutti_memory_free was given an address that tutti_memory_alloc did not give");
  }
  Extent& block = found->second;
  Owned& owner = *block.owner;
  const Arena& arena = owner.arena;
  // Endpoints and peers keep the file until they hear of it; its pages go now, unless they may be another process's, too.
  const bool zero = arena.file != nullptr && block.forks == forks_ &&
                    ::fallocate(arena.file->get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                static_cast<off_t>(found->first - arena.base), static_cast<off_t>(block.bytes)) == 0;
  const bool reusable = zero && block.use == Use::allocated;
  block.use = Use::retired;
  if (--owner.blocks == 0) {
    remove_arena(owner);
  } else if (reusable) {
    give_back(found);
  }
  return {};
}

/// The extent, whose pages are zero, is free from here on, as one with its free neighbours.
void RegisteredMemory::give_back(Extents::iterator extent) {
  const auto is_free = [owner = extent->second.owner](const Extent& neighbour) {
    return neighbour.owner == owner && neighbour.use == Use::free;
  };
  extent->second.use = Use::free;
  if (const auto next = std::next(extent); next != extents_.end() && is_free(next->second)) {
    free_.erase({next->second.bytes, next->first});
    extent->second.bytes += next->second.bytes;
    extents_.erase(next);
  }
  if (extent != extents_.begin() && is_free(std::prev(extent)->second)) {
    const auto previous = std::prev(extent);
    free_.erase({previous->second.bytes, previous->first});
    previous->second.bytes += extent->second.bytes;
    previous->second.node = std::move(extent->second.node);
    extents_.erase(extent);
    extent = previous;
  }
  extent->second.node.value() = {extent->second.bytes, extent->first};
  free_.insert(std::move(extent->second.node));
}

void RegisteredMemory::remove_arena(const Owned& owned) {
  for (auto next = extents_.find(owned.arena.base); next != extents_.end() && next->second.owner == &owned;) {
    if (next->second.use == Use::free) free_.erase({next->second.bytes, next->first});
    next = extents_.erase(next);
  }
  arenas_.erase(owned.arena.base);
  changed();
}

void RegisteredMemory::quarantine(const void* data) {
  const std::lock_guard lock(mutex_);
  const auto after = extents_.upper_bound(static_cast<const std::byte*>(data));
  if (after == extents_.begin()) return;
  auto& [base, extent] = *std::prev(after);
  const bool within = static_cast<std::size_t>(static_cast<const std::byte*>(data) - base) < extent.bytes;
  if (within && extent.use == Use::allocated) extent.use = Use::quarantined;
}

std::optional<Arena> RegisteredMemory::find(const void* data, std::uint64_t bytes) const {
  const std::lock_guard lock(mutex_);
  const auto after = arenas_.upper_bound(static_cast<const std::byte*>(data));
  if (after != arenas_.begin()) {
    const Arena& arena = std::prev(after)->second.arena;
    if (arena.file != nullptr && arena.holds(data, bytes)) return arena;
  }
  for (const auto& [id, range] : added_) {
    if (range.holds(data, bytes)) return range;
  }
  return std::nullopt;
}

std::uint64_t RegisteredMemory::add(std::byte* base, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  added_.emplace(ids_ + 1, Arena{ids_ + 1, base, bytes, nullptr});
  changed();
  return ++ids_;
}

void RegisteredMemory::withdraw(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  if (added_.erase(id) != 0) changed();
}

Registrations::~Registrations() {
  if (known_.empty()) return;
  const EndpointVisit visit(group_);
  for (auto& [base, known] : known_) unregister(known);
}

void Registrations::unregister(Known& known) {
  for (std::size_t e = 0; e < endpoints_.size(); ++e) {
    if (known.regions[e].size != 0) endpoints_[e].transport()->unregister_memory(endpoints_[e].handle(), &known.regions[e]);
  }
}

std::span<const Regions> Registrations::of(const void* input, std::uint64_t input_bytes, const void* output,
                                           std::uint64_t output_bytes) {
  const std::uint64_t changes = RegisteredMemory::instance().changes();
  if (changes == 0) return {};
  const Question question{input, input_bytes, output, output_bytes, changes};
  if (question == last_) return answer_;
  answer_.clear();
  if (last_.changes != changes) forget_freed();
  last_ = question;
  const Known* const in = known(input, input_bytes);
  const Known* const out = known(output, output_bytes);
  if (in == nullptr && out == nullptr) return answer_;
  const auto at = [](const Known* of, std::size_t e) {
    return of != nullptr && of->regions[e].size != 0 ? &of->regions[e] : nullptr;
  };
  for (std::size_t e = 0; e < endpoints_.size(); ++e) answer_.push_back({at(in, e), at(out, e)});
  return answer_;
}

void Registrations::forget_freed() {
  for (auto next = known_.begin(); next != known_.end();) {
    Known& known = next->second;
    const auto there = RegisteredMemory::instance().find(known.arena.base, known.arena.bytes);
    if (there && there->id == known.arena.id) {
      ++next;
    } else {
      unregister(known);
      next = known_.erase(next);
    }
  }
}

/// Registers the arena with every endpoint that can where it is met for the first time; null: no memory of ours.
const Registrations::Known* Registrations::known(const void* data, std::uint64_t bytes) {
  if (data == nullptr || bytes == 0) return nullptr;
  for (auto after = known_.upper_bound({static_cast<const std::byte*>(data), UINT64_MAX}); after != known_.begin();) {
    --after;
    if (after->second.arena.holds(data, bytes)) return &after->second;
  }
  auto arena = RegisteredMemory::instance().find(data, bytes);
  if (!arena) return nullptr;
  Known known{std::move(*arena), std::vector<tutti_region>(endpoints_.size())};
  for (std::size_t e = 0; e < endpoints_.size(); ++e) {
    const tutti_transport& transport = *endpoints_[e].transport();
    if (transport.register_memory == nullptr) continue;
    const tutti_memory memory{.size = sizeof(tutti_memory),
                              .kind = TUTTI_MEMORY_HOST,
                              .base = known.arena.base,
                              .bytes = known.arena.bytes,
                              .fd_kind = known.arena.file != nullptr ? TUTTI_FD_MEMFD : TUTTI_FD_NONE,
                              .fd = known.arena.file != nullptr ? known.arena.file->get() : -1,
                              .fd_offset = 0,
                              .device = 0};
    tutti_region region{};
    char why[TUTTI_WHY_MAX] = "";
    const tutti_status status = transport.register_memory(endpoints_[e].handle(), &memory, &region, why, sizeof why);
    if (status == TUTTI_SUCCESS) {
      known.regions[e] = region;
    } else if (log_enabled(Level::debug)) {
      log(Level::debug, std::to_string(known.arena.bytes) + " bytes are not registered with " + transport.name +
                            ", and are copied: " + why);
    }
  }
  const std::pair<const std::byte*, std::uint64_t> key{known.arena.base, known.arena.id};
  return &known_.emplace(key, std::move(known)).first->second;
}

}  // namespace tutti
