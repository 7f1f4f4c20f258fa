// Ranks of the tcp transport within one thread, for its unit tests.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "src/base/clock.h"
#include "transports/tcp/tcp.h"

namespace tutti::tcp_test {

inline constexpr std::uint64_t kSecond = 1'000'000'000;
inline constexpr std::array<unsigned char, 32> kKey = {1, 2, 3, 4, 5, 6, 7, 8, 9};

/// What an endpoint is opened with. Opened endpoints want theirs to live as long as they do.
struct Config : tutti_endpoint_config {
  Config() : tutti_endpoint_config{} {}
  void set(const char* name, const std::string& value) { values[name] = value; }
  /// With the options that were set.
  const tutti_endpoint_config* ready() {
    list.clear();
    for (const auto& [name, value] : values) list.push_back({name.c_str(), value.c_str()});
    options = list.data();
    option_count = list.size();
    return this;
  }
  std::map<std::string, std::string> values;
  std::vector<tutti_option> list;
};

/// What an endpoint is opened with, unless a test says otherwise.
inline Config config(int rank, int ranks, const unsigned char* key = kKey.data()) {
  Config c;
  c.size = sizeof c;
  c.rank = rank;
  c.ranks = ranks;
  c.key = key;
  c.connect_timeout_ns = 10 * kSecond;
  return c;
}

/// One rank's endpoint with its descriptor; closes itself.
class Rank {
 public:
  explicit Rank(Config with) : t(tcp_transport()), own(std::move(with)) {
    char why[512] = "";
    EXPECT_EQ(t.open(own.ready(), &endpoint, why, sizeof why), TUTTI_SUCCESS) << why;
    descriptor.resize(TUTTI_DESCRIPTOR_MAX);
    if (endpoint != nullptr) descriptor.resize(t.describe(endpoint, descriptor.data()));
  }
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;
  ~Rank() { close(); }
  void close() {
    if (endpoint != nullptr) t.close(endpoint);
    endpoint = nullptr;
  }
  tutti_link* sender(int peer, const std::vector<char>& to, std::uint64_t channel = 0, std::uint32_t slots = 4,
                     std::uint64_t slot_bytes = 4096) {
    return open(TUTTI_LINK_SENDS, peer, to, channel, slots, slot_bytes);
  }
  tutti_link* receiver(int peer, const std::vector<char>& from, std::uint64_t channel = 0, std::uint32_t slots = 4,
                       std::uint64_t slot_bytes = 4096) {
    return open(TUTTI_LINK_RECEIVES, peer, from, channel, slots, slot_bytes);
  }
  tutti_link* open(tutti_direction direction, int peer, const std::vector<char>& there, std::uint64_t channel,
                   std::uint32_t slots, std::uint64_t slot_bytes) {
    tutti_link* link = nullptr;
    EXPECT_EQ(try_open(direction, peer, there, channel, slots, slot_bytes, &link), TUTTI_SUCCESS);
    return link;
  }
  tutti_status try_open(tutti_direction direction, int peer, const std::vector<char>& there, std::uint64_t channel,
                        std::uint32_t slots, std::uint64_t slot_bytes, tutti_link** link) {
    const tutti_link_params params{.size = sizeof(tutti_link_params),
                                   .direction = direction,
                                   .peer = peer,
                                   .descriptor = there.data(),
                                   .descriptor_length = there.size(),
                                   .channel = channel,
                                   .slots = slots,
                                   .slot_bytes = slot_bytes};
    return t.open_link(endpoint, &params, link, nullptr, 0);
  }
  tutti_link_result progress() { return endpoint != nullptr ? t.progress(endpoint) : TUTTI_LINK_NOT_YET; }

  const tutti_transport& t;
  Config own;
  tutti_endpoint* endpoint = nullptr;
  std::vector<char> descriptor;
};

/// Turns the wheel of all these ranks until `done`, or until the deadline; whether it was done.
inline bool until(const std::vector<Rank*>& ranks, const std::function<bool()>& done,
                  std::uint64_t limit_ns = 20 * kSecond) {
  const Deadline deadline = Deadline::in(limit_ns);
  while (!done()) {
    if (deadline.passed()) return false;
    for (Rank* rank : ranks) rank->progress();
  }
  return true;
}

inline bool open_now(tutti_link* link) {
  tutti_link_state state;
  return tcp_transport().link_state(link, &state) == TUTTI_LINK_OK;
}
inline bool broken_now(tutti_link* link) {
  tutti_link_state state;
  return tcp_transport().link_state(link, &state) == TUTTI_LINK_BROKEN ||
         tcp_transport().failure(link, nullptr, 0) == TUTTI_LINK_BROKEN;
}
inline std::string fault(tutti_link* link) {
  char why[512] = "";
  tcp_transport().failure(link, why, sizeof why);
  return why;
}

/// Two ranks and a link from 0 to 1, open on both sides.
struct Pair {
  explicit Pair(std::uint32_t slots = 4, std::uint64_t slot_bytes = 4096, std::int32_t sockets = 0)
      : a(with_sockets(0, sockets)), b(with_sockets(1, sockets)) {
    to = a.sender(1, b.descriptor, 0, slots, slot_bytes);
    from = b.receiver(0, a.descriptor, 0, slots, slot_bytes);
    EXPECT_TRUE(until({&a, &b}, [&] { return open_now(to) && open_now(from); })) << fault(to) << fault(from);
  }
  static Config with_sockets(int rank, std::int32_t sockets) {
    auto c = config(rank, 2);
    if (sockets != 0) c.set("sockets_per_peer", std::to_string(sockets));
    return c;
  }
  bool turn_until(const std::function<bool()>& done) { return until({&a, &b}, done); }
  tutti_quiesced quiesce_and_close(tutti_link* link) const {
    const tutti_quiesced quiesced = t.quiesce(link);
    t.close_link(link);
    return quiesced;
  }
  void* room_at(tutti_link* link, std::uint64_t bytes, std::uint64_t fingerprint) {
    tutti_room room{};
    return t.reserve(link, bytes, fingerprint, &room) == TUTTI_LINK_OK ? room.data : nullptr;
  }
  bool send_text(const std::string& text, std::uint64_t fingerprint = 0) {
    void* room = nullptr;
    if (!turn_until([&] { return (room = room_at(to, text.size(), fingerprint)) != nullptr || broken_now(to); }) ||
        room == nullptr)
      return false;
    std::memcpy(room, text.data(), text.size());
    return t.commit(to, text.size(), fingerprint) == TUTTI_LINK_OK;
  }
  /// The next message as text, released; "(none)" where none comes.
  std::string receive_text() {
    tutti_message message{};
    if (!turn_until([&] { return t.view(from, &message) != TUTTI_LINK_NOT_YET; })) return "(none)";
    if (message.data == nullptr) return "(none)";
    std::string text(static_cast<const char*>(message.data), message.bytes);
    t.release(from);
    return text;
  }

  const tutti_transport& t = tcp_transport();
  Rank a, b;
  tutti_link* to = nullptr;
  tutti_link* from = nullptr;
};

}  // namespace tutti::tcp_test
