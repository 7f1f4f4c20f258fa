// Messages read back as what was sent, whether a trailer follows them or not.
#include "src/point_to_point/wire.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <vector>

namespace tutti {
namespace {

constexpr std::size_t payload_bytes = 5;

/// A message as a link would deliver it; `memory` holds its bytes.
tutti_message sent(const Trailer& trailer, std::vector<std::byte>& memory) {
  memory.assign(payload_bytes, std::byte{7});
  const std::uint64_t word = beside(trailer);
  if (word == in_trailer) {
    memory.resize(payload_bytes + sizeof trailer);
    std::memcpy(memory.data() + payload_bytes, &trailer, sizeof trailer);
  }
  tutti_message message{};
  message.data = memory.data();
  message.bytes = memory.size();
  message.fingerprint = word;
  return message;
}

TEST(Wire, AMessageReadsBackAsItWasSent) {
  const std::vector<Trailer> trailers = {{0, payload_bytes, 3, MessageKind::eager, TUTTI_INT32},
                                         {0, payload_bytes, tag_end, MessageKind::eager, TUTTI_INT32},
                                         {9, 1000, 3, MessageKind::request, TUTTI_INT8},
                                         {9, payload_bytes, 0, MessageKind::data, {}},
                                         {id_end, payload_bytes, 0, MessageKind::data, {}},
                                         {9, 1000, 3, MessageKind::clear, TUTTI_INT8},
                                         {0, 4096, 0, MessageKind::taken, {}}};
  for (const Trailer& trailer : trailers) {
    std::vector<std::byte> memory;
    WireMessage read;
    ASSERT_TRUE(read.read(sent(trailer, memory)));
    EXPECT_EQ(read.trailer.kind, trailer.kind);
    EXPECT_EQ(read.trailer.id, trailer.id);
    EXPECT_EQ(read.trailer.tag, trailer.tag);
    EXPECT_EQ(read.trailer.bytes, trailer.bytes);
    EXPECT_EQ(read.trailer.type, trailer.type);
    EXPECT_EQ(read.payload.size(), payload_bytes);
  }
}

TEST(Wire, AMessageWithoutRoomForItsTrailerIsNone) {
  std::vector<std::byte> memory(sizeof(Trailer) - 1);
  tutti_message message{};
  message.data = memory.data();
  message.bytes = memory.size();
  message.fingerprint = in_trailer;
  EXPECT_FALSE(WireMessage().read(message));
}

TEST(Wire, AWordOfNoKnownMeaningIsNoMessage) {
  tutti_message message{};
  message.fingerprint = 3;
  EXPECT_FALSE(WireMessage().read(message));
}

}  // namespace
}  // namespace tutti
