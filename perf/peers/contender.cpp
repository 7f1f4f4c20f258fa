#include "perf/peers/contender.h"

#include <sys/mman.h>

namespace tutti::perf {

std::string ContenderPlace::option(const std::string& name, const std::string& otherwise) const {
  for (const auto& [key, value] : options) {
    if (key == name) return value;
  }
  return otherwise;
}

std::string ContenderPlace::address_of(int of) const {
  return addresses.empty() ? "127.0.0.1" : addresses[static_cast<size_t>(of) % addresses.size()];
}

const BenchedCollective* Contender::find(const std::string& name) { return find_collective(name); }

std::byte* Contender::allocate(uint64_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<std::byte*>(memory);
}

void Contender::release(std::byte* memory, uint64_t bytes) { munmap(memory, bytes); }

std::string Contender::prepare(const CheckedOperation&, const Places&, uint64_t, uint64_t) { return ""; }

bool Contender::run_batch(const CheckedOperation& operation, const std::function<Places(uint64_t)>& at,
                          uint64_t operations) {
  for (uint64_t i = 0; i < operations; ++i) {
    if (!run(operation, at(i))) return false;
  }
  return true;
}

}  // namespace tutti::perf
