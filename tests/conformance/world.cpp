#include "tests/conformance/world.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "src/base/clock.h"

namespace tutti::conformance {

std::vector<const tutti_transport*>& transports_under_test() {
  static std::vector<const tutti_transport*> transports;
  return transports;
}

TestEndpoint::TestEndpoint(const tutti_transport* transport, const EndpointOptions& options) : transport_(transport) {
  key_.fill(options.key);
  config_.size = sizeof config_;
  config_.rank = options.rank;
  config_.ranks = options.ranks;
  config_.endpoint_class = options.endpoint_class;
  config_.key = key_.data();
  config_.connect_timeout_ns = options.connect_timeout_ns;
  cache_ = std::to_string(options.core_cache_bytes);
  options_.push_back({"an option that nobody knows", "passed over"});
  if (options.core_cache_bytes != 0) options_.push_back({"core_cache_bytes", cache_.c_str()});
  config_.options = options_.data();
  config_.option_count = options_.size();
  char why[512] = "";
  const tutti_status status = transport_->open(&config_, &endpoint_, why, sizeof why);
  EXPECT_EQ(status, TUTTI_SUCCESS) << why;
  if (status != TUTTI_SUCCESS) std::abort();
  descriptor_.resize(TUTTI_DESCRIPTOR_MAX);
  const std::size_t length = transport_->describe(endpoint_, descriptor_.data());
  EXPECT_LE(length, descriptor_.size());
  descriptor_.resize(length);
}

void TestEndpoint::close() {
  if (endpoint_ != nullptr) transport_->close(endpoint_);
  endpoint_ = nullptr;
}

tutti_status TestEndpoint::try_open(tutti_direction direction, int peer, const Bytes& descriptor, std::uint64_t channel,
                                    std::uint32_t slots, std::uint64_t bytes, tutti_link** link, std::string& why) {
  const tutti_link_params params{.size = sizeof(tutti_link_params),
                                 .direction = direction,
                                 .peer = peer,
                                 .descriptor = descriptor.data(),
                                 .descriptor_length = descriptor.size(),
                                 .channel = channel,
                                 .slots = slots,
                                 .slot_bytes = bytes};
  std::array<char, TUTTI_WHY_MAX> text{};
  const tutti_status status = transport_->open_link(endpoint_, &params, link, text.data(), text.size());
  why = text.data();
  return status;
}

tutti_link* TestEndpoint::open(tutti_direction direction, int peer, const Bytes& descriptor, std::uint64_t channel,
                               std::uint32_t slots, std::uint64_t bytes) {
  tutti_link* link = nullptr;
  std::string why;
  EXPECT_EQ(try_open(direction, peer, descriptor, channel, slots, bytes, &link, why), TUTTI_SUCCESS) << why;
  return link;
}

tutti_link* TestEndpoint::open_sender(int peer, const Bytes& descriptor, std::uint64_t channel, std::uint32_t slots,
                                      std::uint64_t bytes) {
  return open(TUTTI_LINK_SENDS, peer, descriptor, channel, slots, bytes);
}

tutti_link* TestEndpoint::open_receiver(int peer, const Bytes& descriptor, std::uint64_t channel, std::uint32_t slots,
                                        std::uint64_t bytes) {
  return open(TUTTI_LINK_RECEIVES, peer, descriptor, channel, slots, bytes);
}

World::World(const tutti_transport* transport, int ranks, EndpointOptions options) : transport_(transport) {
  options.ranks = ranks;
  for (options.rank = 0; options.rank < ranks; ++options.rank) {
    endpoints_.push_back(std::make_unique<TestEndpoint>(transport, options));
  }
}

bool World::progress() {
  bool moved = false;
  for (const auto& endpoint : endpoints_) {
    if (endpoint && endpoint->progress() == TUTTI_LINK_OK) moved = true;
  }
  return moved;
}

void World::settle() {
  constexpr std::uint64_t quiet_ns = 2'000'000;
  const Deadline limit = Deadline::in(kSecond);  // some always move
  for (Deadline quiet = Deadline::in(quiet_ns); !quiet.passed() && !limit.passed();) {
    if (progress()) quiet = Deadline::in(quiet_ns);
  }
}

bool World::until(const std::function<bool()>& done, std::uint64_t limit_ns) {
  const Deadline deadline = Deadline::in(limit_ns);
  while (!done()) {
    if (deadline.passed()) return false;
    progress();
    sched_yield();
  }
  return true;
}

Pipe open_pipe(World& world, int from, int to, std::uint64_t channel, std::uint32_t slots, std::uint64_t slot_bytes) {
  Pipe pipe;
  pipe.sender = world[from].open_sender(to, world[to].descriptor(), channel, slots, slot_bytes);
  pipe.receiver = world[to].open_receiver(from, world[from].descriptor(), channel, slots, slot_bytes);
  const bool open = world.until([&] {
    return world.t().link_state(pipe.sender, &pipe.sending) != TUTTI_LINK_NOT_YET &&
           world.t().link_state(pipe.receiver, &pipe.receiving) != TUTTI_LINK_NOT_YET;
  });
  EXPECT_TRUE(open) << "channel " << channel << " from " << from << " to " << to << " did not open";
  EXPECT_EQ(world.t().link_state(pipe.sender, &pipe.sending), TUTTI_LINK_OK) << failure_of(world.t(), pipe.sender);
  EXPECT_EQ(world.t().link_state(pipe.receiver, &pipe.receiving), TUTTI_LINK_OK) << failure_of(world.t(), pipe.receiver);
  return pipe;
}

namespace {

unsigned char byte_of(std::uint64_t number, std::uint64_t index) {
  return static_cast<unsigned char>(number * 131 + index * 7 + (index >> 8) * 13 + (index >> 16) * 29);
}

}  // namespace

void fill(unsigned char* data, std::uint64_t number, std::uint64_t bytes) {
  for (std::uint64_t i = 0; i < bytes; ++i) data[i] = byte_of(number, i);
}

Bytes pattern(std::uint64_t number, std::uint64_t bytes) {
  Bytes data(bytes);
  fill(data.data(), number, bytes);
  return data;
}

std::uint64_t mismatch(const void* data, std::uint64_t number, std::uint64_t bytes) {
  const auto* const p = static_cast<const unsigned char*>(data);
  for (std::uint64_t i = 0; i < bytes; ++i) {
    if (p[i] != byte_of(number, i)) return i;
  }
  return bytes;
}

tutti_room reserved(const tutti_transport& t, tutti_link* sender, std::uint64_t bytes, std::uint64_t fingerprint) {
  tutti_room room{};
  const tutti_link_result result = t.reserve(sender, bytes, fingerprint, &room);
  EXPECT_EQ(room.data != nullptr, result == TUTTI_LINK_OK) << "it is written where there is room only";
  return room;
}

void* room_of(const tutti_transport& t, tutti_link* sender, std::uint64_t bytes, std::uint64_t fingerprint) {
  return reserved(t, sender, bytes, fingerprint).data;
}

tutti_quiesced quiesce_and_close(const tutti_transport& t, tutti_link* link) {
  const tutti_quiesced quiesced = t.quiesce(link);
  t.close_link(link);
  return quiesced;
}

tutti_status register_file(const tutti_transport& t, tutti_endpoint* endpoint, void* base, std::uint64_t bytes, int fd,
                           tutti_region* region, std::string* why) {
  const tutti_memory memory{.size = sizeof(tutti_memory),
                            .kind = TUTTI_MEMORY_HOST,
                            .base = base,
                            .bytes = bytes,
                            .fd_kind = TUTTI_FD_MEMFD,
                            .fd = fd,
                            .fd_offset = 0,
                            .device = 0};
  std::array<char, TUTTI_WHY_MAX> text{};
  const tutti_status status = t.register_memory(endpoint, &memory, region, text.data(), text.size());
  if (why != nullptr) *why = text.data();
  return status;
}

bool try_send(const tutti_transport& t, tutti_link* sender, std::uint64_t number, std::uint64_t bytes) {
  void* const room = room_of(t, sender, bytes, fingerprint_of(number));
  if (room == nullptr) return false;
  fill(static_cast<unsigned char*>(room), number, bytes);
  EXPECT_EQ(t.commit(sender, bytes, fingerprint_of(number)), TUTTI_LINK_OK) << failure_of(t, sender);
  return true;
}

bool try_receive(const tutti_transport& t, tutti_link* receiver, std::uint64_t number, std::uint64_t bytes) {
  tutti_message message{};
  if (t.view(receiver, &message) != TUTTI_LINK_OK) return false;
  EXPECT_EQ(message.bytes, bytes) << "message " << number;
  EXPECT_EQ(message.fingerprint, fingerprint_of(number)) << "message " << number;
  if (message.bytes == bytes) {
    EXPECT_EQ(mismatch(message.data, number, bytes), bytes) << "message " << number;
  }
  t.release(receiver);
  return true;
}

std::string failure_of(const tutti_transport& t, tutti_link* link) {
  char why[512] = "";
  return t.failure(link, why, sizeof why) == TUTTI_LINK_OK ? std::string() : std::string(why);
}

FileMemory::FileMemory(std::uint64_t bytes)
    : bytes_(bytes), fd_(::memfd_create("tutti-test", MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
  EXPECT_GE(fd_, 0);
  EXPECT_EQ(::ftruncate(fd_, static_cast<off_t>(bytes)), 0);
  EXPECT_EQ(::fcntl(fd_, F_ADD_SEALS, F_SEAL_SHRINK), 0);
  void* const data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  EXPECT_NE(data, MAP_FAILED);
  data_ = static_cast<unsigned char*>(data);
}

FileMemory::~FileMemory() {
  ::munmap(data_, bytes_);
  ::close(fd_);
}

}  // namespace tutti::conformance
