// The driver's beginning and end: cuInit, the end of main, a fork; and what tests tell it.
#include <dlfcn.h>
#include <pthread.h>

#include <cstdlib>
#include <cstring>
#include <utility>

#include "tests/standin/address_map.h"
#include "tests/standin/configuration.h"
#include "tests/standin/control.h"
#include "tests/standin/entry.h"
#include "tests/standin/failures.h"
#include "tests/standin/faults.h"
#include "tests/standin/graphs.h"
#include "tests/standin/libraries.h"
#include "tests/standin/pool.h"
#include "tests/standin/virtual_memory.h"

using namespace standin;  // NOLINT: entry points live outside of namespaces

namespace {

/// From here on every call answers CUDA_ERROR_DEINITIALIZED, and kernels end.
void end_driver() {
  // A child's exit: its lock may be held for ever. Relaxed: see State::forked.
  if (state().forked.load(std::memory_order_relaxed)) return;
  const Lock lock(state().lock);
  state().ending = true;
  for (const auto& [handle, context] : state().contexts.all()) lose(*context, DriverResult::deinitialized);
}

// Relaxed: the child has this one thread, and those that it starts come after.
void mark_child() { state().forked.store(true, std::memory_order_relaxed); }

void make_devices() {
  State& now = state();
  for (int ordinal = 0; ordinal < now.configuration.devices; ++ordinal) {
    auto device = std::make_unique<Device>();
    device->ordinal = ordinal;
    now.devices.push_back(std::move(device));
  }
}

DriverResult initialise() {
  State& now = state();
  if (now.initialised) return DriverResult::success;
  now.configuration = read_environment();
  now.random.seed(now.configuration.seed);
  if (now.configuration.devices == 0) return DriverResult::no_device;
  if (!pool().reserve()) return DriverResult::out_of_memory;
  make_devices();
  catch_faults();
  ::pthread_atfork(nullptr, nullptr, mark_child);
  std::atexit(end_driver);
  now.initialised = true;
  return DriverResult::success;
}

/// Orders of the environment hold for the calls before cuInit, and for cuInit itself.
void read_first_orders() {
  static const bool once = [] {
    const Lock lock(state().lock);
    if (const char* orders = std::getenv("STANDIN_FAIL"); orders != nullptr) failures().order(orders);
    return true;
  }();
  static_cast<void>(once);
}

/// This driver, as dlopen gives it: programs load it without adding its symbols to their own.
void* own_library() {
  Dl_info own{};
  if (::dladdr(reinterpret_cast<const void*>(&end_driver), &own) == 0) return nullptr;
  return ::dlopen(own.dli_fname, RTLD_NOW | RTLD_NOLOAD);
}

}  // namespace

DriverResult cuInit(unsigned flags) {
  read_first_orders();
  return enter(__func__, Needs::nothing, [&](Call&) { return flags != 0 ? DriverResult::invalid_value : initialise(); });
}

DriverResult cuDriverGetVersion(int* version) {
  read_first_orders();
  return enter(__func__, Needs::nothing, [&](Call&) {
    if (version == nullptr) return DriverResult::invalid_value;
    *version = state().initialised ? state().configuration.version : read_environment().version;
    return DriverResult::success;
  });
}

// As the real one it finds a symbol's newest version that we have: with suffix _v3, _v2, or none.
extern "C" __attribute__((visibility("default"))) DriverResult cuGetProcAddress_v2(const char* symbol, void** found, int,
                                                                                   std::uint64_t, unsigned* outcome) {
  return enter(__func__, Needs::nothing, [&](Call&) {
    if (symbol == nullptr || found == nullptr) return DriverResult::invalid_value;
    *found = nullptr;
    for (const char* suffix : {"_v3", "_v2", ""}) {
      if (*found == nullptr) *found = ::dlsym(own_library(), (std::string(symbol) + suffix).c_str());
    }
    if (outcome != nullptr) *outcome = *found == nullptr ? 1 : 0;
    return *found == nullptr ? DriverResult::not_found : DriverResult::success;
  });
}

bool standin_fail(const char* orders) {
  const Lock lock(state().lock);
  return failures().order(orders);
}

bool standin_set(const char* name, const char* value) {
  const Lock lock(state().lock);
  if (std::strcmp(name, "DEVICES") == 0 || !set_value(state().configuration, name, value)) return false;
  if (std::strcmp(name, "SEED") == 0) state().random.seed(state().configuration.seed);
  return true;
}

std::uint64_t standin_calls(const char* entry) {
  const Lock lock(state().lock);
  return failures().calls(entry);
}

std::uint64_t standin_live() {
  const Lock lock(state().lock);
  const State& now = state();
  return now.contexts.size() + now.streams.size() + now.events.size() + address_map().size() + graph_objects() +
         library_objects() + virtual_memory_objects();
}

std::uint64_t standin_threads() {
  const Lock lock(state().lock);
  return state().threads;
}

std::uint64_t standin_most_resident(int device) {
  const Lock lock(state().lock);
  Device& asked = *state().devices.at(static_cast<std::size_t>(device));
  return static_cast<std::uint64_t>(std::exchange(asked.most_resident, asked.resident));
}

bool standin_protects() { return pool().protects(); }
