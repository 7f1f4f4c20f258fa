// What is shared memory's own: who can share it, what lies in it, and that a peer that writes nonsense breaks a link, no
// more.
#include "transports/shm/shm.h"

#include <dirent.h>
#include <gtest/gtest.h>

#include <cstring>

#include "tests/conformance/world.h"
#include "transports/shm/layout.h"
#include "transports/shm/machine.h"

namespace tutti::shm {
namespace {

using conformance::Bytes;
using conformance::failure_of;
using conformance::open_pipe;
using conformance::Pipe;
using conformance::try_receive;
using conformance::try_send;
using conformance::World;

const tutti_transport& t() { return *transport(); }

std::string refusal(World& world, const EndpointAddress& address) {
  tutti_reach reach{};
  char why[256] = "";
  const int reached = t().reach(world[0].get(), 1, &address, sizeof address, &reach, why, sizeof why);
  return reached == 1 ? std::string() : why;
}

TEST(ShmReach, IsThisMachineAndNetworkNamespace) {
  World world(&t(), 2);
  EndpointAddress address;
  ASSERT_EQ(world[1].descriptor().size(), sizeof address);
  std::memcpy(&address, world[1].descriptor().data(), sizeof address);
  EXPECT_EQ(refusal(world, address), "");
  EndpointAddress elsewhere = address;
  elsewhere.boot[3] = elsewhere.boot[3] == '0' ? '1' : '0';
  EXPECT_NE(refusal(world, elsewhere).find("another machine"), std::string::npos);
  EndpointAddress contained = address;
  contained.network_inode += 1;
  EXPECT_NE(refusal(world, contained).find("network namespace"), std::string::npos);
  tutti_link* link = nullptr;
  EXPECT_EQ(t().open_sender(world[0].get(), 1, &elsewhere, sizeof elsewhere, 0, 2, 64, &link), TUTTI_UNSUPPORTED);
}

TEST(ShmLayout, KeepsWritersApartAndPayloadsAligned) {
  for (const std::uint64_t bytes : {1u, 40u, 41u, 64u, 100u, 4095u, 4096u, 65536u, 1000003u}) {
    const LinkLayout l = LinkLayout::of(3, bytes);
    EXPECT_EQ(l.stride % kPair, 0u) << bytes;
    EXPECT_GE(l.stride, l.header_offset + kLine + (bytes > kInlineBytes ? bytes : 0)) << bytes;
    EXPECT_EQ((l.header_offset + l.payload_offset) % (bytes >= kPage ? kPair : kLine), 0u) << bytes;
    EXPECT_GE(l.total, kPage + 3 * l.stride) << bytes;
  }
  EXPECT_FALSE(LinkLayout::sane(0, 64));
  EXPECT_FALSE(LinkLayout::sane(2, UINT64_MAX));
}

TEST(ShmLink, RefusesOtherSizesOnBothSides) {
  World world(&t(), 2);
  tutti_link* const sender = world[0].open_sender(1, world[1].descriptor(), 0, 2, 64);
  tutti_link* const receiver = world[1].open_receiver(0, world[0].descriptor(), 0, 4, 64);
  EXPECT_TRUE(world.until([&] { return !failure_of(t(), sender).empty() && !failure_of(t(), receiver).empty(); }));
  EXPECT_NE(failure_of(t(), sender).find("4 slots of 64 bytes"), std::string::npos) << failure_of(t(), sender);
  EXPECT_NE(failure_of(t(), receiver).find("2 slots of 64 bytes"), std::string::npos) << failure_of(t(), receiver);
}

TEST(ShmLink, ARankMaySendToItself) {
  World world(&t(), 2);
  const Pipe pipe = open_pipe(world, 1, 1, 3, 2, 5000);
  for (std::uint64_t n = 0; n < 5; ++n) {
    ASSERT_TRUE(world.until([&] { return try_send(t(), pipe.sender, n, 5000); }));
    ASSERT_TRUE(world.until([&] { return try_receive(t(), pipe.receiver, n, 5000); }));
  }
}

// The receiver's mapping is writable; a peer that has lost its mind could do the same from its side.
SlotHeader& header_of(const Pipe& pipe) {
  return *reinterpret_cast<SlotHeader*>(const_cast<unsigned char*>(pipe.receiving.arrived));
}

TEST(ShmLink, BreaksWhereALengthExceedsItsSlot) {
  for (const Kind kind : {Kind::kInline, Kind::kSlot, Kind::kPull, Kind::kPut, Kind{0}, Kind{99}}) {
    World world(&t(), 2);
    const Pipe pipe = open_pipe(world, 0, 1, 0, 2, 64);
    SlotHeader& header = header_of(pipe);
    header.size_and_kind = pack(5000, kind);
    header.reference = {77, 5};
    header.sequence = 1;
    tutti_message message{};
    if (kind == Kind::kPull) {
      // An unknown region may still be announced.
      EXPECT_EQ(t().view(pipe.receiver, &message), TUTTI_LINK_NOT_YET);
      continue;
    }
    EXPECT_EQ(t().view(pipe.receiver, &message), TUTTI_LINK_BROKEN);
    EXPECT_NE(failure_of(t(), pipe.receiver).find("damaged"), std::string::npos) << failure_of(t(), pipe.receiver);
  }
}

TEST(ShmLink, BreaksWhereAPulledMessageLiesOutsideItsRegion) {
  World world(&t(), 2);
  const Pipe pipe = open_pipe(world, 0, 1, 0, 2, 64);
  conformance::FileMemory memory(8192);
  tutti_region region{};
  ASSERT_EQ(t().register_region(world[0].get(), memory.data(), memory.bytes(), memory.fd(), 0, &region), TUTTI_SUCCESS);
  EXPECT_EQ(t().register_region(world[0].get(), memory.data(), 1 << 20, memory.fd(), 0, &region), TUTTI_INVALID_ARGUMENT)
      << "the file is shorter";
  ASSERT_EQ(t().offer(pipe.sender, &region, memory.data(), 8192, 0), TUTTI_LINK_OK);
  header_of(pipe).reference.offset = 1;
  tutti_message message{};
  EXPECT_EQ(t().view(pipe.receiver, &message), TUTTI_LINK_BROKEN);
  EXPECT_NE(failure_of(t(), pipe.receiver).find("region of 8192"), std::string::npos) << failure_of(t(), pipe.receiver);
}

TEST(ShmLink, RefusesToOfferWhatIsNotRegistered) {
  World world(&t(), 2);
  const Pipe pipe = open_pipe(world, 0, 1, 0, 2, 64);
  const Bytes loose(100);
  EXPECT_EQ(t().offer(pipe.sender, nullptr, loose.data(), loose.size(), 0), TUTTI_LINK_BROKEN);
  EXPECT_NE(failure_of(t(), pipe.sender).find("registered"), std::string::npos);
}

TEST(ShmLink, BreaksWhereTheReceiverCountsNonsense) {
  World world(&t(), 2);
  const Pipe pipe = open_pipe(world, 0, 1, 0, 2, 64);
  ASSERT_TRUE(try_send(t(), pipe.sender, 0, 64));
  ASSERT_TRUE(try_send(t(), pipe.sender, 1, 64));
  *const_cast<std::uint64_t*>(pipe.sending.reusable) = 1000;
  EXPECT_EQ(t().reserve(pipe.sender, 64, 0), nullptr);
  EXPECT_NE(failure_of(t(), pipe.sender).find("counts 1000"), std::string::npos) << failure_of(t(), pipe.sender);
}

TEST(ShmLink, KeepsAPulledMessageWhoseOwnerTakesItsRegionBack) {
  World world(&t(), 2);
  const Pipe pipe = open_pipe(world, 0, 1, 0, 2, 64);
  tutti_message message{};
  {
    conformance::FileMemory memory(8192);
    conformance::fill(memory.data(), 3, 8192);
    tutti_region region{};
    ASSERT_EQ(t().register_region(world[0].get(), memory.data(), memory.bytes(), memory.fd(), 0, &region), TUTTI_SUCCESS);
    ASSERT_EQ(t().offer(pipe.sender, &region, memory.data(), 8192, 0), TUTTI_LINK_OK);
    ASSERT_TRUE(world.until([&] { return t().view(pipe.receiver, &message) == TUTTI_LINK_OK; }));
    t().unregister_region(world[0].get(), &region);
    for (int i = 0; i < 1000; ++i) world.progress();
  }
  EXPECT_EQ(conformance::mismatch(message.data, 3, 8192), 8192u);
  t().release(pipe.receiver);
}

int entries(const char* folder) {
  DIR* const dir = ::opendir(folder);
  if (dir == nullptr) return 0;
  int count = 0;
  while (::readdir(dir) != nullptr) ++count;
  ::closedir(dir);
  return count;
}

TEST(ShmEndpoint, LeavesNoFileAndNoDescriptor) {
  {
    World warm_up(&t(), 1);
  }
  const int files = entries("/proc/self/fd");
  for (int round = 0; round < 3; ++round) {
    World world(&t(), 3);
    open_pipe(world, 0, 1, 0, 2, 64);
    open_pipe(world, 2, 1, 0, 2, 1 << 20);
    tutti_link* const waiting = world[0].open_sender(2, world[2].descriptor(), 9, 2, 64);
    EXPECT_NE(waiting, nullptr);
  }
  EXPECT_EQ(entries("/proc/self/fd"), files);
}

}  // namespace
}  // namespace tutti::shm
