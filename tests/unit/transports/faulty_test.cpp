#include "transports/faulty/faulty.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/clock.h"
#include "tests/conformance/world.h"
#include "transports/registry.h"

namespace tutti::faulty {
namespace {

using namespace conformance;

const tutti_transport* shm() { return builtin_transports()[0]; }

TEST(Faulty, ReadsItsOrdersAndNamesWhatItDoesNotUnderstand) {
  const auto faults = parse_faults("rank=1,point=commit,after=40,action=kill;point=view,action=delay,ms=20");
  ASSERT_TRUE(faults.ok()) << faults.status().text();
  ASSERT_EQ(faults->size(), 2u);
  EXPECT_EQ((*faults)[0].rank, 1);
  EXPECT_EQ((*faults)[0].after, 40u);
  EXPECT_EQ((*faults)[0].action, FaultAction::kKill);
  EXPECT_EQ((*faults)[1].rank, -1);
  EXPECT_EQ((*faults)[1].delay_ns, 20'000'000u);
  const auto wrong = parse_faults("rank=1,point=teatime");
  ASSERT_FALSE(wrong.ok());
  EXPECT_NE(wrong.status().text().find("point=teatime"), std::string::npos);
}

TEST(Faulty, BreaksALinkAtTheChosenCallForBothSides) {
  configure(shm(), {{0, Point::kCommit, 3, FaultAction::kBreak, 0}});
  World world(transport(), 2);
  const Pipe pipe = open_pipe(world, 0, 1, 0, 8, 64);
  const tutti_transport& t = *transport();
  for (std::uint64_t n = 0; n < 3; ++n) ASSERT_TRUE(try_send(t, pipe.sender, n, 64));
  ASSERT_NE(room_of(t, pipe.sender, 64, 0), nullptr);
  EXPECT_EQ(t.commit(pipe.sender, 64, 0), TUTTI_LINK_BROKEN);
  EXPECT_NE(failure_of(t, pipe.sender).find("on purpose"), std::string::npos);
  for (std::uint64_t n = 0; n < 3; ++n) EXPECT_TRUE(world.until([&] { return try_receive(t, pipe.receiver, n, 64); }));
  tutti_message message{};
  EXPECT_TRUE(world.until([&] { return t.view(pipe.receiver, &message) == TUTTI_LINK_BROKEN; }));
}

TEST(Faulty, RefusesToOpenAndToRegisterWithAReason) {
  configure(shm(), {{0, Point::kOpen, 1, FaultAction::kBreak, 0}, {0, Point::kRegister, 0, FaultAction::kBreak, 0}});
  World world(transport(), 2);
  const tutti_transport& t = *transport();
  const Bytes& there = world[1].descriptor();
  world[0].open_sender(1, there, 0, 2, 64);
  tutti_link* link = nullptr;
  std::string why;
  EXPECT_EQ(world[0].try_open(TUTTI_LINK_RECEIVES, 1, there, 0, 2, 64, &link, why), TUTTI_SYSTEM_ERROR);
  EXPECT_NE(why.find("on purpose"), std::string::npos) << why;
  EXPECT_EQ(world[0].try_open(TUTTI_LINK_SENDS, 1, there, 0, 2, 64, &link, why), TUTTI_INVALID_USAGE);
  EXPECT_NE(why.find("open already"), std::string::npos) << "the inner transport's: " << why;
  FileMemory memory(4096);
  tutti_region region{};
  EXPECT_EQ(register_file(t, world[0].get(), memory.data(), 4096, memory.fd(), &region, &why), TUTTI_SYSTEM_ERROR);
  EXPECT_NE(why.find("on purpose"), std::string::npos);
}

TEST(Faulty, DelaysWithoutBlocking) {
  configure(shm(), {{1, Point::kView, 0, FaultAction::kDelay, 30'000'000}});
  World world(transport(), 2);
  const Pipe pipe = open_pipe(world, 0, 1, 0, 8, 64);
  ASSERT_TRUE(try_send(*transport(), pipe.sender, 0, 64));
  const std::uint64_t begun = now_ns();
  EXPECT_TRUE(world.until([&] { return try_receive(*transport(), pipe.receiver, 0, 64); }));
  EXPECT_GE(now_ns() - begun, 30'000'000u);
}

TEST(Faulty, LetsTheTransportSayHowRoomsAreFilled) {
  configure(shm(), {});
  World world(transport(), 2);
  const Pipe pipe = open_pipe(world, 0, 1, 0, 4, 65'536);
  const tutti_transport& t = *transport();
  int streamed = 0;
  for (std::uint64_t n = 0; n < 1000; ++n) {
    const tutti_room room = reserved(t, pipe.sender, 65'536, fingerprint_of(n));
    ASSERT_NE(room.data, nullptr);
    streamed += (room.flags & TUTTI_ROOM_NON_TEMPORAL) != 0 ? 1 : 0;
    ASSERT_TRUE(try_send(t, pipe.sender, n, 65'536));
    ASSERT_TRUE(try_receive(t, pipe.receiver, n, 65'536));
  }
  EXPECT_GE(streamed, 2);
}

TEST(Faulty, KillsTheProcess) {
  const pid_t child = ::fork();
  if (child == 0) {
    configure(shm(), {{-1, Point::kReserve, 2, FaultAction::kKill, 0}});
    World world(transport(), 2);
    const Pipe pipe = open_pipe(world, 0, 1, 0, 8, 64);
    for (int i = 0; i < 3; ++i) (void)room_of(*transport(), pipe.sender, 8, 0);
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
}

}  // namespace
}  // namespace tutti::faulty
