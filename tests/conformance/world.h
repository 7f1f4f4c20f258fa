// The conformance suite's world: a few ranks of one transport, driven step by step.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "include/tutti/transport.h"

namespace tutti::conformance {

/// The transports under test: built in, or the plugin that the command line named. Set before gtest is initialised.
std::vector<const tutti_transport*>& transports_under_test();

using Bytes = std::vector<unsigned char>;

inline constexpr std::uint64_t kSecond = 1'000'000'000;

/// What an endpoint is opened with, and may differ from rank to rank in a test.
struct EndpointOptions {
  int rank = 0;
  int ranks = 2;
  unsigned char key = 7;  ///< all 32 bytes of the key
  std::uint64_t connect_timeout_ns = 20 * kSecond;
  std::uint32_t endpoint_class = TUTTI_CLASS_COLLECTIVE;
  std::uint64_t core_cache_bytes = 0;
};

/// Owns an endpoint. Its functions are the transport's, with gtest failures where they cannot be called at all.
class TestEndpoint {
 public:
  TestEndpoint(const tutti_transport* transport, const EndpointOptions& options);
  ~TestEndpoint() { close(); }
  TestEndpoint(const TestEndpoint&) = delete;
  TestEndpoint& operator=(const TestEndpoint&) = delete;

  void close();
  tutti_endpoint* get() const { return endpoint_; }
  const Bytes& descriptor() const { return descriptor_; }
  tutti_link_result progress() { return transport_->progress(endpoint_); }
  /// As open_link, which may fail, with its sentence in `why`.
  tutti_status try_open(tutti_direction direction, int peer, const Bytes& descriptor, std::uint64_t channel,
                        std::uint32_t slots, std::uint64_t bytes, tutti_link** link, std::string& why);
  tutti_link* open_sender(int peer, const Bytes& descriptor, std::uint64_t channel, std::uint32_t slots,
                          std::uint64_t bytes);
  tutti_link* open_receiver(int peer, const Bytes& descriptor, std::uint64_t channel, std::uint32_t slots,
                            std::uint64_t bytes);

 private:
  const tutti_transport* transport_;
  tutti_link* open(tutti_direction direction, int peer, const Bytes& descriptor, std::uint64_t channel, std::uint32_t slots,
                   std::uint64_t bytes);

  std::array<unsigned char, 32> key_{};
  std::string cache_;
  std::vector<tutti_option> options_;
  tutti_endpoint_config config_{};
  tutti_endpoint* endpoint_ = nullptr;
  Bytes descriptor_;
};

/// `ranks` endpoints in one process.
class World {
 public:
  World(const tutti_transport* transport, int ranks, EndpointOptions options = {});

  TestEndpoint& operator[](int rank) { return *endpoints_[static_cast<std::size_t>(rank)]; }
  const tutti_transport& t() const { return *transport_; }
  int ranks() const { return static_cast<int>(endpoints_.size()); }
  /// Progress of every endpoint that is still there; whether anything moved.
  bool progress();
  /// Makes progress until nothing has moved for 2 ms: what was under way has come.
  void settle();
  /// Makes progress until `done`, at most for `limit_ns`; whether it became true.
  bool until(const std::function<bool()>& done, std::uint64_t limit_ns = 30 * kSecond);
  void drop(int rank) { endpoints_[static_cast<std::size_t>(rank)].reset(); }

 private:
  const tutti_transport* transport_;
  std::vector<std::unique_ptr<TestEndpoint>> endpoints_;
};

/// A link with both ends in this process.
struct Pipe {
  tutti_link* sender = nullptr;
  tutti_link* receiver = nullptr;
  tutti_link_state sending{};
  tutti_link_state receiving{};
};

/// Opens a channel from `from` to `to` and waits until both ends are open.
Pipe open_pipe(World& world, int from, int to, std::uint64_t channel, std::uint32_t slots, std::uint64_t slot_bytes);

/// The bytes of message `number` of a stream: different for each message, each byte predictable.
Bytes pattern(std::uint64_t number, std::uint64_t bytes);
/// Writes them in place; the fast form of the above.
void fill(unsigned char* data, std::uint64_t number, std::uint64_t bytes);
/// First byte that differs from pattern(number, bytes), or `bytes`.
std::uint64_t mismatch(const void* data, std::uint64_t number, std::uint64_t bytes);
constexpr std::uint64_t fingerprint_of(std::uint64_t number) { return number * 0x9E3779B97F4A7C15u + 1; }

/// Room for a message; its data is NULL where there is no credit.
tutti_room reserved(const tutti_transport& t, tutti_link* sender, std::uint64_t bytes, std::uint64_t fingerprint);
void* room_of(const tutti_transport& t, tutti_link* sender, std::uint64_t bytes, std::uint64_t fingerprint);
/// What the link's memory came to, once it is known; the link is gone.
tutti_quiesced quiesce_and_close(const tutti_transport& t, tutti_link* link);
/// Registers a file's memory.
tutti_status register_file(const tutti_transport& t, tutti_endpoint* endpoint, void* base, std::uint64_t bytes, int fd,
                           tutti_region* region, std::string* why = nullptr);
/// Sends message `number` if there is credit.
bool try_send(const tutti_transport& t, tutti_link* sender, std::uint64_t number, std::uint64_t bytes);
/// Takes message `number` if it is there, and checks all of it.
bool try_receive(const tutti_transport& t, tutti_link* receiver, std::uint64_t number, std::uint64_t bytes);
/// The link's sentence, empty while it is sound.
std::string failure_of(const tutti_transport& t, tutti_link* link);

/// Memory in a file of its own, as tutti_memory_alloc gives it.
class FileMemory {
 public:
  explicit FileMemory(std::uint64_t bytes);
  ~FileMemory();
  FileMemory(const FileMemory&) = delete;
  FileMemory& operator=(const FileMemory&) = delete;
  unsigned char* data() const { return data_; }
  std::uint64_t bytes() const { return bytes_; }
  int fd() const { return fd_; }

 private:
  std::uint64_t bytes_;
  int fd_ = -1;
  unsigned char* data_ = nullptr;
};

/// Parameter: the transport.
class Conformance : public testing::TestWithParam<const tutti_transport*> {
 protected:
  const tutti_transport& t() const { return *GetParam(); }
};

}  // namespace tutti::conformance
