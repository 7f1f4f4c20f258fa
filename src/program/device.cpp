#include "src/program/device.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace tutti::program {

/// By the driver's names, with its types as far as they matter here: handles are pointers, results and devices numbers.
struct RankDevice::Functions {
  int (*cuInit)(unsigned) = nullptr;
  int (*cuGetErrorName)(int, const char**) = nullptr;
  int (*cuDeviceGetCount)(int*) = nullptr;
  int (*cuDeviceGetName)(char*, int, int) = nullptr;
  int (*cuDevicePrimaryCtxRetain)(void**, int) = nullptr;
  int (*cuCtxSetCurrent)(void*) = nullptr;
  int (*cuStreamCreateWithPriority)(void**, unsigned, int) = nullptr;
  int (*cuStreamDestroy)(void*) = nullptr;
  int (*cuStreamSynchronize)(void*) = nullptr;
  int (*cuMemcpyHtoDAsync)(std::uintptr_t, const void*, std::size_t, void*) = nullptr;
  int (*cuMemcpyDtoHAsync)(void*, std::uintptr_t, std::size_t, void*) = nullptr;
  int (*cuMemcpyDtoDAsync)(std::uintptr_t, std::uintptr_t, std::size_t, void*) = nullptr;
  int devices = 0;
  std::string why;  ///< there are none
};

namespace {

constexpr unsigned non_blocking = 1;

std::uintptr_t address(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

}  // namespace

const RankDevice::Functions* RankDevice::functions(std::string& why) {
  // Loaded once; the driver stays for as long as the process lives.
  static const Functions loaded = [] {
    Functions found;
    void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      const char* const reason = dlerror();
      found.why = fmt::format("this machine has no CUDA driver ({}); install one, or use host memory",
                              reason != nullptr ? reason : "libcuda.so.1");
      return found;
    }
    const auto put = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      if (function == nullptr) found.why = fmt::format("libcuda.so.1 has no {}: a driver of R525 or later is needed", name);
    };
    put(found.cuInit, "cuInit");
    put(found.cuGetErrorName, "cuGetErrorName");
    put(found.cuDeviceGetCount, "cuDeviceGetCount");
    put(found.cuDeviceGetName, "cuDeviceGetName");
    put(found.cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain");
    put(found.cuCtxSetCurrent, "cuCtxSetCurrent");
    put(found.cuStreamCreateWithPriority, "cuStreamCreateWithPriority");
    put(found.cuStreamDestroy, "cuStreamDestroy_v2");
    put(found.cuStreamSynchronize, "cuStreamSynchronize");
    put(found.cuMemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2");
    put(found.cuMemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2");
    put(found.cuMemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2");
    if (!found.why.empty()) return found;
    if (found.cuInit(0) != 0 || found.cuDeviceGetCount(&found.devices) != 0 || found.devices == 0)
      found.why = "the CUDA driver finds no device; see nvidia-smi and CUDA_VISIBLE_DEVICES, or use host memory";
    return found;
  }();
  why = loaded.why;
  return loaded.why.empty() ? &loaded : nullptr;
}

std::string RankDevice::failure(int result, const char* entry) const {
  if (result == 0) return "";
  const char* name = nullptr;
  functions_.cuGetErrorName(result, &name);
  return fmt::format("{} failed on device {}: {}", entry, ordinal_, name != nullptr ? name : std::to_string(result));
}

std::unique_ptr<RankDevice> RankDevice::open(int64_t ordinal, int turn, std::string& why) {
  const Functions* const found = functions(why);
  if (found == nullptr) return nullptr;
  if (ordinal >= found->devices) {
    why = fmt::format("device {} was asked for, and there are {}, numbered from 0", ordinal, found->devices);
    return nullptr;
  }
  std::unique_ptr<RankDevice> device(new RankDevice(*found));
  device->ordinal_ = ordinal >= 0 ? static_cast<int>(ordinal) : turn % found->devices;
  void* context = nullptr;
  why = device->failure(found->cuDevicePrimaryCtxRetain(&context, device->ordinal_), "cuDevicePrimaryCtxRetain");
  if (why.empty()) why = device->failure(found->cuCtxSetCurrent(context), "cuCtxSetCurrent");
  if (why.empty())
    why =
        device->failure(found->cuStreamCreateWithPriority(&device->stream_, non_blocking, 0), "cuStreamCreateWithPriority");
  return why.empty() ? std::move(device) : nullptr;
}

RankDevice::~RankDevice() {
  if (stream_ != nullptr) functions_.cuStreamDestroy(stream_);
}

std::string RankDevice::name() const {
  char text[128] = "";
  return functions_.cuDeviceGetName(text, sizeof text, ordinal_) == 0 ? text : "unknown";
}

std::string RankDevice::synchronize() { return failure(functions_.cuStreamSynchronize(stream_), "cuStreamSynchronize"); }

std::string RankDevice::copy_in(void* to, const void* from, std::size_t bytes) {
  const std::string why = failure(functions_.cuMemcpyHtoDAsync(address(to), from, bytes, stream_), "cuMemcpyHtoDAsync");
  return why.empty() ? synchronize() : why;
}

std::string RankDevice::copy_out(void* to, const void* from, std::size_t bytes) {
  const std::string why = failure(functions_.cuMemcpyDtoHAsync(to, address(from), bytes, stream_), "cuMemcpyDtoHAsync");
  return why.empty() ? synchronize() : why;
}

double RankDevice::copy_GBps(void* to, const void* from, std::size_t bytes) {
  using Clock = std::chrono::steady_clock;
  constexpr int rounds = 8;
  constexpr int copies = 4;  // in a row, so that the way to the device counts little
  double best = 0;
  for (int round = 0; round < rounds; ++round) {
    const auto begin = Clock::now();
    for (int copy = 0; copy < copies; ++copy) {
      if (functions_.cuMemcpyDtoDAsync(address(to), address(from), bytes, stream_) != 0) return 0;
    }
    if (!synchronize().empty()) return 0;
    const std::chrono::duration<double, std::nano> time = Clock::now() - begin;
    best = std::max(best, 2.0 * copies * static_cast<double>(bytes) / time.count());
  }
  return best;
}

}  // namespace tutti::program
