// Every status of a work request is told with a cause and a remedy, in the room that sentences have.
#include "transports/verbs/sentences.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "include/tutti/transport.h"

namespace tutti::verbs {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

PathTrouble trouble(ibv_wc_status status) {
  PathTrouble made;
  made.status = status;
  made.vendor_error = 0x81;
  made.peer = "rank 7 (node4, pid 8812)";
  made.device = "mlx5_0:1";
  made.own_address = "10.1.0.4";
  made.other_address = "10.2.0.9";
  made.port_state = "down (physically polling)";
  made.tried_ns = 60'000'000'000;
  made.traffic_class = 26;
  return made;
}

TEST(PathSentences, SayThatPacketsAreLostWhereBothEndsAreWell) {
  const Status status = why_path_failed(trouble(IBV_WC_RETRY_EXC_ERR));
  EXPECT_EQ(status.code(), TUTTI_REMOTE_ERROR);
  EXPECT_EQ(status.error().message,
            "rank 7 (node4, pid 8812) could not be reached by mlx5_0:1 (10.1.0.4) for 60 s; our port is active and its "
            "process answers, so packets are lost between 10.1.0.4 and 10.2.0.9");
  EXPECT_THAT(status.error().remedy, AllOf(HasSubstr("traffic class 26"), HasSubstr("ib_write_bw 10.2.0.9")));
}

TEST(PathSentences, TellADownPortFromADeadPeer) {
  PathTrouble down = trouble(IBV_WC_RETRY_EXC_ERR);
  down.port_is_active = false;
  EXPECT_EQ(why_path_failed(down).code(), TUTTI_SYSTEM_ERROR);
  EXPECT_EQ(why_path_failed(down).error().message,
            "mlx5_0:1 has been down (physically polling) for 60 s; rank 7 (node4, pid 8812) waits");
  PathTrouble dead = trouble(IBV_WC_RETRY_EXC_ERR);
  dead.peer_answers = false;
  EXPECT_THAT(why_path_failed(dead).error().message, HasSubstr("its process does not answer either"));
  PathTrouble other = trouble(IBV_WC_RETRY_EXC_ERR);
  other.other_is_down = true;
  EXPECT_THAT(why_path_failed(other).error().message, HasSubstr("its own port is down"));
}

TEST(PathSentences, NameAcsWhereMemoryIsAGpus) {
  PathTrouble gpu = trouble(IBV_WC_LOC_PROT_ERR);
  gpu.is_device_memory = true;
  EXPECT_EQ(why_path_failed(gpu).code(), TUTTI_SYSTEM_ERROR);
  EXPECT_THAT(why_path_failed(gpu).error().message, AllOf(HasSubstr("a GPU's memory"), HasSubstr("ACS")));
  const Status own = why_path_failed(trouble(IBV_WC_LOC_PROT_ERR));
  EXPECT_EQ(own.code(), TUTTI_INTERNAL_ERROR) << "the library registers host memory itself";
  EXPECT_THAT(own.error().message, HasSubstr("vendor error 0x81"));
}

TEST(PathSentences, AreThereForEveryStatusAndFitTheirRoom) {
  for (int number = IBV_WC_LOC_LEN_ERR; number <= IBV_WC_TM_RNDV_INCOMPLETE + 3; ++number) {
    for (const bool active : {true, false}) {
      for (const bool of_device : {true, false}) {
        PathTrouble of = trouble(static_cast<ibv_wc_status>(number));
        of.port_is_active = active;
        of.is_device_memory = of_device;
        of.own_address = of.other_address = "2001:db8:1111:2222:3333:4444:5555:6666";
        const Status status = why_path_failed(of);
        EXPECT_FALSE(status.ok());
        EXPECT_NE(status.error().remedy, "") << number;
        EXPECT_LT(status.text().size(), TUTTI_WHY_MAX) << status.text();
      }
    }
  }
}

}  // namespace
}  // namespace tutti::verbs
