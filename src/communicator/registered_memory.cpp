#include "src/communicator/registered_memory.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "src/base/memory_file.h"

namespace tutti {
namespace {

/// Whether a file leaves half of the descriptors that this process may have: the system gives out the lowest free number,
/// so that all below it are taken. Communicators need theirs, and so does the program.
bool leaves_enough(const Descriptor& file) {
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) != 0 || static_cast<rlim_t>(file.get()) < limit.rlim_cur / 2;
}

/// A file for the memory; none where the memory has to do without.
Descriptor file_of(std::size_t bytes) {
  auto file = create_memory("tutti-memory", bytes);
  return file.ok() && leaves_enough(*file) ? std::move(*file) : Descriptor();
}

/// Made when the library is loaded, so that no fork falls into its making.
[[maybe_unused]] const RegisteredMemory& made_early = RegisteredMemory::instance();

}  // namespace

bool Allocation::holds(const void* data, std::uint64_t length) const {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  const auto begin = reinterpret_cast<std::uintptr_t>(base);
  return address >= begin && length <= bytes && address - begin <= bytes - length;
}

RegisteredMemory& RegisteredMemory::instance() {
  static RegisteredMemory* const self = create();  // never destroyed: memory may be freed while the process exits
  return *self;
}

/// A fork waits for whoever is at it, so that the child finds it whole and unlocked; and is counted, in both.
RegisteredMemory* RegisteredMemory::create() {
  constexpr auto before = [] { instance().mutex_.lock(); };
  constexpr auto after = [] {
    ++instance().forks_;
    instance().mutex_.unlock();
  };
  // Refused for want of memory only; then a child has to do without what this guards.
  static_cast<void>(::pthread_atfork(before, after, after));
  return new RegisteredMemory;
}

/// Release: whoever sees the new number finds the change under the lock, which it takes next.
void RegisteredMemory::changed() { changes_.fetch_add(1, std::memory_order_release); }

Result<void*> RegisteredMemory::allocate(std::size_t bytes) {
  const std::size_t size = std::max<std::size_t>(bytes, 1);
  Descriptor file = file_of(size);
  const int flags = file ? MAP_SHARED : MAP_SHARED | MAP_ANONYMOUS;
  void* data = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, flags, file.get(), 0);
  if (data == MAP_FAILED) {
    return system_error("memory of " + std::to_string(bytes) + " bytes could not be mapped", errno, "Free memory.");
  }
  Mapping mapping(data, size);
  // Fewer misses where the system allows it; where it does not, small pages serve as well.
  static_cast<void>(::madvise(data, size, MADV_HUGEPAGE));
  Allocation allocation;
  allocation.base = static_cast<std::byte*>(data);
  allocation.bytes = size;
  if (file) allocation.file = std::make_shared<const Descriptor>(std::move(file));
  const std::lock_guard lock(mutex_);
  allocation.id = ++ids_;
  allocation.forks = forks_;
  owned_.emplace(allocation.base, Owned{std::move(allocation), std::move(mapping)});
  changed();
  return data;
}

Status RegisteredMemory::free(void* data) {
  if (data == nullptr) return {};
  const std::lock_guard lock(mutex_);
  const auto found = owned_.find(static_cast<std::byte*>(data));
  if (found == owned_.end()) {
    return Status(TUTTI_INVALID_ARGUMENT, "tutti_memory_free was given an address that tutti_memory_alloc did not give");
  }
  const Allocation& allocation = found->second.allocation;
  // Endpoints and peers keep the file until they hear of it; its pages go now, unless they may be another process's, too.
  if (allocation.file != nullptr && allocation.forks == forks_) {
    static_cast<void>(::fallocate(allocation.file->get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                                  static_cast<off_t>(allocation.bytes)));
  }
  owned_.erase(found);
  changed();
  return {};
}

std::optional<Allocation> RegisteredMemory::find(const void* data, std::uint64_t bytes) const {
  const std::lock_guard lock(mutex_);
  auto after = owned_.upper_bound(static_cast<const std::byte*>(data));
  if (after == owned_.begin()) return std::nullopt;
  const Allocation& allocation = std::prev(after)->second.allocation;
  if (allocation.file == nullptr || !allocation.holds(data, bytes)) return std::nullopt;
  return allocation;
}

Registrations::~Registrations() {
  for (Known& known : known_) unregister(known);
}

void Registrations::unregister(Known& known) {
  for (std::size_t e = 0; e < endpoints_.size(); ++e) {
    if (known.regions[e].size != 0) endpoints_[e].transport()->unregister_region(endpoints_[e].handle(), &known.regions[e]);
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
  std::erase_if(known_, [this](Known& known) {
    const auto there = RegisteredMemory::instance().find(known.allocation.base, known.allocation.bytes);
    if (there && there->id == known.allocation.id) return false;
    unregister(known);
    return true;
  });
}

/// Registers the memory with every endpoint that can where it is met for the first time; null: no memory of ours.
const Registrations::Known* Registrations::known(const void* data, std::uint64_t bytes) {
  if (data == nullptr || bytes == 0) return nullptr;
  for (const Known& known : known_) {
    if (known.allocation.holds(data, bytes)) return &known;
  }
  auto allocation = RegisteredMemory::instance().find(data, bytes);
  if (!allocation) return nullptr;
  Known known{std::move(*allocation), std::vector<tutti_region>(endpoints_.size())};
  for (std::size_t e = 0; e < endpoints_.size(); ++e) {
    const tutti_transport& transport = *endpoints_[e].transport();
    if (transport.register_region == nullptr) continue;
    tutti_region region{};
    const tutti_status status = transport.register_region(endpoints_[e].handle(), known.allocation.base,
                                                          known.allocation.bytes, known.allocation.file->get(), 0, &region);
    if (status == TUTTI_SUCCESS) known.regions[e] = region;
  }
  known_.push_back(std::move(known));
  return &known_.back();
}

}  // namespace tutti
