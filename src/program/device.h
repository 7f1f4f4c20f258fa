// The few functions of the CUDA driver that programs call themselves: for data in device memory, for streams, and for what
// a device copies. Found by dlopen; nothing of CUDA is needed to build.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace tutti::program {

/// One device, made this thread's current one. Not thread safe; each rank has its own.
class RankDevice {
 public:
  /// Opens a device: the ordinal, or, below 0, device `turn` of all in turn. Its primary context stays this thread's
  /// current one. `why` is set where there is none.
  static std::unique_ptr<RankDevice> open(int64_t ordinal, int turn, std::string& why);
  ~RankDevice();
  RankDevice(const RankDevice&) = delete;
  RankDevice& operator=(const RankDevice&) = delete;

  int ordinal() const { return ordinal_; }
  /// "NVIDIA H100 80GB HBM3".
  std::string name() const;
  /// A stream that does not wait for the legacy one, a cudaStream_t; this object's.
  void* stream() const { return stream_; }

  // Each waits until it is done. Empty, or the sentence why it failed.
  std::string copy_in(void* to, const void* from, std::size_t bytes);
  std::string copy_out(void* to, const void* from, std::size_t bytes);
  std::string synchronize();
  /// Bytes read and written each second, in GB/s, by copies of `bytes` from one place on the device to another. The best of
  /// some; 0 where it cannot be measured.
  double copy_GBps(void* to, const void* from, std::size_t bytes);

 private:
  struct Functions;
  explicit RankDevice(const Functions& functions) : functions_(functions) {}
  static const Functions* functions(std::string& why);
  std::string failure(int result, const char* entry) const;

  const Functions& functions_;
  int ordinal_ = 0;
  void* stream_ = nullptr;
};

}  // namespace tutti::program
