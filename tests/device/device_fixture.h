// What tests of collectives on device memory have in common: ranks as threads with a device each, buffers and streams. They
// run on the driver that the loader finds, the stand-in or a real one.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "include/tutti/tutti.h"
#include "tests/support/ranks.h"
#include "tests/support/sanitizers.h"
#include "tests/unit/cuda/cuda_test.h"

#if defined(__SANITIZE_THREAD__)
/// The loader frees what threads that have ended kept of libcuda.so.1, behind a lock that the thread sanitizer does not
/// see.
extern "C" inline __attribute__((used, visibility("default"))) const char* __tsan_default_suppressions() {
  return "race:_dl_deallocate_tls\n";
}
#endif

namespace tutti::test {

using Bytes = std::vector<std::uint8_t>;

inline constexpr std::uint64_t kSecondNs = 1'000'000'000;
/// How long an operation may take where nothing is wrong: far more than any does.
inline constexpr std::uint64_t kUsualTimeoutNs = 20 * kSecondNs;
/// What the library promises for the end of an operation once its communicator has failed, times what a sanitizer costs.
inline constexpr std::uint64_t kPromisedEndNs = (under_tsan || under_asan ? 4 : 1) * kSecondNs;

/// The driver of this process, for tests that have not skipped.
inline const cuda::Driver& driver() { return **cuda::Driver::get(); }
inline const cuda::DriverApi& api() { return driver().api(); }

inline constexpr auto kOk = cuda::DriverResult::success;

/// Nanoseconds since some moment.
inline std::uint64_t clock_ns() {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count());
}

/// Threads meet here, as often as they like. Half a minute is the limit of each meeting, so that one that is missing shows
/// as a failure.
class MeetingPoint {
 public:
  explicit MeetingPoint(int threads) : threads_(threads) {}
  void meet() {
    std::unique_lock lock(mutex_);
    const std::uint64_t round = round_;
    if (++come_ == threads_) {
      come_ = 0;
      ++round_;
      all_.notify_all();
      return;
    }
    EXPECT_TRUE(all_.wait_for(lock, std::chrono::seconds(30), [&] { return round_ != round; })) << "a thread is missing";
  }

 private:
  const int threads_;
  std::mutex mutex_;
  std::condition_variable all_;
  int come_ = 0;
  std::uint64_t round_ = 0;
};

/// Where a rank may be: a device's primary context, or one more context of it. Kernels of different places run beside each
/// other, so that a machine with one device has several places, too. The stand-in's contexts of one device share its
/// hardware queues, so CTest gives it a device for each place.
class Places {
 public:
  static int device_of(int place) { return place % driver().device_count(); }
  /// Lives as long as the process.
  static cuda::Context context_of(int place) {
    if (place < driver().device_count()) return primary(place);
    static std::mutex mutex;
    static std::map<int, cuda::ContextHandle> made;
    const std::lock_guard lock(mutex);
    cuda::ContextHandle& handle = made[place];
    cuda::ContextHandle popped = nullptr;
    if (handle == nullptr) {
      EXPECT_EQ(api().cuCtxCreate_v2(&handle, 0, device_of(place)), kOk);
    } else {
      EXPECT_EQ(api().cuCtxPushCurrent_v2(handle), kOk);
    }
    auto context = cuda::Context::current_or_primary(driver(), cuda::kNoDevice);
    EXPECT_TRUE(context.ok()) << context.status().text();
    EXPECT_EQ(api().cuCtxPopCurrent_v2(&popped), kOk);
    return std::move(*context);
  }

 private:
  static cuda::Context primary(int device) {
    auto context = cuda::Context::primary(driver(), device);
    EXPECT_TRUE(context.ok()) << context.status().text();
    return std::move(*context);
  }
};

/// A place's context, current in this thread for as long as the object lives.
class CurrentPlace {
 public:
  explicit CurrentPlace(int place) : context_(Places::context_of(place)), scope_(enter(context_)) {}
  const cuda::Context& context() const { return context_; }

 private:
  static cuda::ContextScope enter(const cuda::Context& context) {
    auto entered = cuda::ContextScope::enter(context);
    EXPECT_TRUE(entered.ok()) << entered.status().text();
    return std::move(*entered);
  }
  cuda::Context context_;
  cuda::ContextScope scope_;
};

/// A stream of the current context.
class Stream {
 public:
  Stream() { EXPECT_EQ(api().cuStreamCreateWithPriority(&handle_, cuda::kStreamNonBlocking, 0), kOk); }
  Stream(Stream&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() {
    if (handle_ != nullptr) api().cuStreamDestroy_v2(handle_);
  }
  cuda::StreamHandle handle() const { return handle_; }
  void wait() const { EXPECT_EQ(api().cuStreamSynchronize(handle_), kOk); }

 private:
  cuda::StreamHandle handle_ = nullptr;
};

/// A stream as calls take it.
inline tutti_stream on(cuda::StreamHandle handle) { return {TUTTI_STREAM_CUDA, handle}; }
inline tutti_stream on(const Stream& stream) { return on(stream.handle()); }

/// An instantiated graph.
class Replay {
 public:
  Replay() = default;
  Replay(Replay&& other) noexcept : instance_(std::exchange(other.instance_, nullptr)) {}
  Replay& operator=(Replay&& other) noexcept {
    std::swap(instance_, other.instance_);
    return *this;
  }
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;
  ~Replay() {
    if (instance_ != nullptr) api().cuGraphExecDestroy(instance_);
  }

  /// Captures what `calls` gives to the stream; empty where that failed.
  static Replay capture(const Stream& stream, cuda::CaptureMode mode, const std::function<void()>& calls) {
    Replay made;
    cuda::GraphHandle graph = nullptr;
    EXPECT_EQ(api().cuStreamBeginCapture_v2(stream.handle(), mode), kOk);
    calls();
    EXPECT_EQ(api().cuStreamEndCapture(stream.handle(), &graph), kOk);
    if (graph == nullptr) return made;
    EXPECT_EQ(api().cuGraphInstantiateWithFlags(&made.instance_, graph, 0), kOk);
    EXPECT_EQ(api().cuGraphDestroy(graph), kOk);
    return made;
  }

  explicit operator bool() const { return instance_ != nullptr; }
  void launch(const Stream& stream) const {
    ASSERT_NE(instance_, nullptr);
    EXPECT_EQ(api().cuGraphLaunch(instance_, stream.handle()), kOk);
  }

 private:
  cuda::GraphExecHandle instance_ = nullptr;
};

/// Kinds of memory that a buffer may be.
enum class MemoryKind { device, managed, pinned, pageable };
inline const char* name_of(MemoryKind kind) {
  constexpr const char* names[] = {"device", "managed", "pinned", "pageable"};
  return names[static_cast<int>(kind)];
}

/// Memory of one kind, of the current context's device. Its copies return when they are done, and order nothing else.
class Memory {
 public:
  Memory() = default;
  Memory(MemoryKind kind, std::size_t bytes) : kind_(kind), bytes_(bytes) {
    cuda::DevicePointer address = 0;
    if (kind == MemoryKind::device) {
      EXPECT_EQ(api().cuMemAlloc_v2(&address, size()), kOk);
    } else if (kind == MemoryKind::managed) {
      EXPECT_EQ(api().cuMemAllocManaged(&address, size(), cuda::kMemoryAttachGlobal), kOk);
    } else if (kind == MemoryKind::pinned) {
      EXPECT_EQ(api().cuMemHostAlloc(&data_, size(), cuda::kHostPortable | cuda::kHostDeviceMap), kOk);
    } else {
      pageable_.resize(size());
      data_ = pageable_.data();
    }
    if (data_ == nullptr) data_ = reinterpret_cast<void*>(address);
  }
  explicit Memory(MemoryKind kind, std::span<const std::uint8_t> contents) : Memory(kind, contents.size()) {
    write(contents);
  }
  Memory(Memory&& other) noexcept { swap(other); }
  Memory& operator=(Memory&& other) noexcept {
    swap(other);
    return *this;
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() {
    if (data_ == nullptr) return;
    if (kind_ == MemoryKind::device || kind_ == MemoryKind::managed) api().cuMemFree_v2(address());
    if (kind_ == MemoryKind::pinned) api().cuMemFreeHost(data_);
  }

  void* data() const { return data_; }
  template <typename T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  cuda::DevicePointer address() const { return reinterpret_cast<cuda::DevicePointer>(data_); }
  std::size_t bytes() const { return bytes_; }

  void write(std::span<const std::uint8_t> contents) const { copy(data_, contents.data(), contents.size()); }
  Bytes read() const {
    Bytes contents(bytes_);
    copy(contents.data(), data_, bytes_);
    return contents;
  }
  template <typename T>
  void write_all(const std::vector<T>& values) const {
    write({reinterpret_cast<const std::uint8_t*>(values.data()), values.size() * sizeof(T)});
  }
  template <typename T>
  std::vector<T> read_all() const {
    std::vector<T> values(bytes_ / sizeof(T));
    copy(values.data(), data_, values.size() * sizeof(T));
    return values;
  }

 private:
  std::size_t size() const { return bytes_ == 0 ? 1 : bytes_; }
  void swap(Memory& other) {
    std::swap(kind_, other.kind_);
    std::swap(bytes_, other.bytes_);
    std::swap(data_, other.data_);
    std::swap(pageable_, other.pageable_);
  }
  void copy(void* to, const void* from, std::size_t bytes) const {
    if (bytes == 0) return;
    if (kind_ == MemoryKind::pageable) {
      std::memcpy(to, from, bytes);
      return;
    }
    const Stream own;
    EXPECT_EQ(api().cuMemcpyAsync(reinterpret_cast<cuda::DevicePointer>(to), reinterpret_cast<cuda::DevicePointer>(from),
                                  bytes, own.handle()),
              kOk);
    own.wait();
  }

  MemoryKind kind_ = MemoryKind::pageable;
  std::size_t bytes_ = 0;
  void* data_ = nullptr;
  Bytes pageable_;
};

/// Values in device memory of the current context.
template <typename T>
Memory device_values(const std::vector<T>& values) {
  Memory memory(MemoryKind::device, values.size() * sizeof(T));
  memory.write_all(values);
  return memory;
}

/// A pinned word of the current context that holds up streams until it is opened.
class Hold {
 public:
  Hold() : word_(MemoryKind::pinned, sizeof(std::uint64_t)) { put(0); }
  ~Hold() { open(); }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;
  /// The stream stands still here until it is opened.
  void hold(const Stream& stream) const { hold(stream.handle()); }
  void hold(cuda::StreamHandle stream) const {
    EXPECT_EQ(api().cuStreamWaitValue32_v2(stream, word_.address(), 1, cuda::kWaitValueEqual), kOk);
  }
  void open() { put(1); }

 private:
  // Release: what the test wrote before is there for the stream.
  void put(std::uint32_t value) { std::atomic_ref(*word_.as<std::uint32_t>()).store(value, std::memory_order_release); }
  Memory word_;
};

/// How a group of ranks is made.
struct GroupOptions {
  int ranks = 2;
  int places = 1;  ///< rank r is at place r % places, of which the first are the devices
  std::uint64_t timeout_ns = kUsualTimeoutNs;
  std::uint32_t max_blocks = 0;
  std::uint32_t min_blocks = 0;
  tutti_memory_kind memory = TUTTI_MEMORY_AUTO;
  int (*poll)(void* ctx) = nullptr;
  void* poll_ctx = nullptr;
};

/// One rank within its thread, its device's context current.
struct DeviceRank {
  int rank;
  int size;
  tutti_comm* comm;
  int place;
  const Stream& stream;  ///< of its own
};

/// A communicator's ranks, each with a device. `run` gives each a thread.
class DeviceRanks {
 public:
  explicit DeviceRanks(const GroupOptions& options) : options_(options), comms_(static_cast<std::size_t>(options.ranks)) {
    tutti_unique_id id;
    EXPECT_EQ(tutti_get_unique_id(&id), TUTTI_SUCCESS) << last_error();
    in_threads([&](int rank) {
      tutti_config config = this->config(rank);
      EXPECT_EQ(tutti_comm_create(&comms_[static_cast<std::size_t>(rank)], size(), &id, rank, &config), TUTTI_SUCCESS)
          << last_error();
    });
  }
  ~DeviceRanks() { destroy(); }
  DeviceRanks(const DeviceRanks&) = delete;
  DeviceRanks& operator=(const DeviceRanks&) = delete;

  int size() const { return options_.ranks; }
  int place_of(int rank) const { return rank % options_.places; }
  tutti_comm* operator[](int rank) const { return comms_[static_cast<std::size_t>(rank)]; }
  bool created() const { return std::find(comms_.begin(), comms_.end(), nullptr) == comms_.end(); }

  /// Runs `body` on every rank at once.
  void run(const std::function<void(const DeviceRank&)>& body) const {
    ASSERT_TRUE(created());
    in_threads([&](int rank) {
      const CurrentPlace current(place_of(rank));
      const Stream stream;
      body({rank, size(), (*this)[rank], place_of(rank), stream});
    });
  }

  void destroy() {
    for (tutti_comm*& comm : comms_) tutti_comm_destroy(std::exchange(comm, nullptr));
  }
  /// A rank's handle, for whoever destroys it.
  tutti_comm* take(int rank) { return std::exchange(comms_[static_cast<std::size_t>(rank)], nullptr); }

 private:
  tutti_config config(int rank) const {
    tutti_config config = TUTTI_CONFIG_INIT;
    config.operation_timeout_ns = options_.timeout_ns;
    config.max_blocks = options_.max_blocks;
    config.min_blocks = options_.min_blocks;
    config.memory = options_.memory;
    config.device = Places::device_of(place_of(rank)) + 1;
    config.poll = options_.poll;
    config.poll_ctx = options_.poll_ctx;
    return config;
  }
  void in_threads(const std::function<void(int)>& body) const {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size(); ++rank) threads.emplace_back(body, rank);
    for (std::thread& thread : threads) thread.join();
  }

  const GroupOptions options_;
  std::vector<tutti_comm*> comms_;
};

/// A test of collectives on device memory; skipped by name where there is no driver, or no kernels for a real one.
class DeviceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto found = cuda::Driver::get();
    if (!found.ok()) GTEST_SKIP() << found.status().text();
    standin = cuda::StandinControl::find();
    if (!standin && !kernels_are_there()) GTEST_SKIP() << "libtutti_kernels.so is not there: " << last_error();
    if (standin) standin.fail("");
  }
  void TearDown() override {
    if (!standin) return;
    standin.fail("");
    for (const auto& [name, value] :
         {std::pair{"SMS", "4"}, {"BLOCKS_PER_SM", "2"}, {"QUEUES", "8"}, {"THREADS", "3"}, {"LINKS", "all"}}) {
      standin.set(name, value);
    }
  }

  static int devices() { return driver().device_count(); }

  /// Lets one block of the stand-in run at a time, until the test ends. A test skips where it could not.
  bool keep_one_block_resident() const { return standin && standin.set("SMS", "1") && standin.set("BLOCKS_PER_SM", "1"); }

  cuda::StandinControl standin;

 private:
  static bool kernels_are_there() {
    const CurrentPlace current(0);
    const Memory word(MemoryKind::device, 4);
    tutti_comm* comm = nullptr;
    EXPECT_EQ(tutti_comm_create_all(&comm, 1, nullptr), TUTTI_SUCCESS) << last_error();
    const tutti_status status = tutti_all_reduce(word.data(), word.data(), 1, TUTTI_INT32, TUTTI_SUM, comm, {}, nullptr);
    const std::string sentence = last_error();
    tutti_comm_destroy(comm);
    return status != TUTTI_UNSUPPORTED || sentence.find("libtutti_kernels.so") == std::string::npos;
  }
};

/// A number of every rank's, summed over all: what shows that a group works. Where it does not, says why.
inline void expect_sums(const DeviceRank& rank, tutti_stream stream, const Stream& behind) {
  constexpr std::size_t count = 100;
  const Memory send = device_values(std::vector<std::int32_t>(count, rank.rank + 1));
  const Memory recv = device_values(std::vector<std::int32_t>(count, -1));
  ASSERT_EQ(tutti_all_reduce(send.data(), recv.data(), count, TUTTI_INT32, TUTTI_SUM, rank.comm, stream, nullptr),
            TUTTI_SUCCESS)
      << last_error();
  behind.wait();
  EXPECT_EQ(recv.read_all<std::int32_t>(), std::vector<std::int32_t>(count, rank.size * (rank.size + 1) / 2));
}

/// Whether such a group can still be made and works, on a stream and blocking.
inline void expect_places_work(int ranks, int places) {
  const DeviceRanks fresh({.ranks = ranks, .places = places});
  fresh.run([](const DeviceRank& rank) {
    expect_sums(rank, on(rank.stream), rank.stream);
    expect_sums(rank, {}, rank.stream);
  });
}

}  // namespace tutti::test
