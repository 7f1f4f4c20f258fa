#include "src/bootstrap/rendezvous.h"

#include <fcntl.h>
#include <malloc.h>
#include <sys/stat.h>

#include <array>
#include <barrier>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "src/base/random.h"
#include "src/base/socket.h"
#include "src/bootstrap/id_file.h"
#include "src/bootstrap/rendezvous_client.h"
#include "src/bootstrap/rendezvous_server.h"
#include "src/bootstrap/unique_id.h"
#include "src/tables/units.h"
#include "tests/support/holdings.h"
#include "tests/support/world.h"

namespace tutti::test {
namespace {

std::vector<std::byte> bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

void expect_all_fail(const std::vector<Result<Membership>>& results, tutti_status code,
                     const std::vector<std::string>& parts) {
  for (const auto& result : results) {
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.status().code(), code) << result.status().text();
    for (const std::string& part : parts) EXPECT_THAT(result.status().text(), HasSubstr(part));
  }
}

SocketAddress loopback(std::uint16_t port) { return SocketAddress::v4(std::array<unsigned char, 4>{127, 0, 0, 1}, port); }

PortRange only(std::uint16_t port) { return {port, port}; }

class Sizes : public testing::TestWithParam<int> {};

TEST_P(Sizes, EverybodyKnowsEverybodyAndTheKey) {
  const int n = GetParam();
  const tutti_unique_id id = id_of_test();
  const auto results = join_all(n, [&](int rank, JoinRequest& request) {
    request.id = &id;
    request.blob = [rank](std::span<const unsigned char, kKeyBytes> key, int, int) -> Result<std::vector<std::byte>> {
      return bytes_of("blob " + std::to_string(rank) + " " + std::to_string(key[0]));
    };
  });
  for (int rank = 0; rank < n; ++rank) {
    const auto& result = results[static_cast<std::size_t>(rank)];
    ASSERT_TRUE(result.ok()) << result.status().text();
    EXPECT_EQ(result->rank, rank);
    EXPECT_EQ(result->key, results[0]->key);
    ASSERT_EQ(result->members.size(), static_cast<std::size_t>(n));
    for (int r = 0; r < n; ++r) {
      const Member& member = result->members[static_cast<std::size_t>(r)];
      EXPECT_EQ(member.rank, r);
      EXPECT_EQ(member.pid, ::getpid());
      EXPECT_EQ(member.blob, bytes_of("blob " + std::to_string(r) + " " + std::to_string(result->key[0])));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, Sizes, testing::Values(1, 2, 3, 4, 5, 7, 8, 9));

TEST(Join, TwoCommunicatorsOfOneSecretHaveDifferentKeys) {
  const std::string address = "tcp://127.0.0.1:" + std::to_string(free_port());
  std::vector<Key> keys;
  for (int i = 0; i < 3; ++i) {
    const auto results = join_all(3, [&](int, JoinRequest& request) {
      request.address = address;
      request.settings.secret = "same";
    });
    for (const auto& result : results) ASSERT_TRUE(result.ok()) << result.status().text();
    keys.push_back(results[0]->key);
  }
  EXPECT_NE(keys[0], keys[1]);
  EXPECT_NE(keys[1], keys[2]);
}

// Two meetings of one process that have a secret in common. Nobody comes to the first but rank 0.
class OneSecret : public testing::Test {
 protected:
  static JoinRequest request_at(const std::string& address, int rank, double seconds) {
    JoinRequest request = request_of(rank, 2, seconds);
    request.address = address;
    request.settings.secret = "same";
    return request;
  }
  // Whether somebody listens at the first.
  bool begun() const {
    return eventually([&] {
      const auto knock = connect_to(loopback(port_));
      return knock.ok() && connect_result(knock->get()) == 0;
    });
  }
  const std::uint16_t port_ = free_port();
  const std::string first_ = "tcp://127.0.0.1:" + std::to_string(port_);
  const std::string second_ = "tcp://127.0.0.1:" + std::to_string(free_port());
};

TEST_F(OneSecret, AMeetingThatFailsDoesNotEndAnother) {
  std::atomic<bool> over{false};
  std::thread alone([&] {
    const auto result = join(request_at(first_, 0, 0.3));
    EXPECT_EQ(result.status().code(), TUTTI_TIMEOUT) << result.status().text();
    over = true;
  });
  EXPECT_TRUE(begun());
  std::thread early([&] {
    const auto result = join(request_at(second_, 0, 20));
    EXPECT_TRUE(result.ok()) << result.status().text();
  });
  EXPECT_TRUE(eventually([&] { return over.load(); }));
  ::usleep(100'000);
  const auto result = join(request_at(second_, 1, 20));
  EXPECT_TRUE(result.ok()) << result.status().text();
  early.join();
  alone.join();
}

TEST_F(OneSecret, AMeetingThatHasEndedDoesNotWaitForAnother) {
  std::atomic<bool> enough{false};
  std::thread alone([&] {
    JoinRequest request = request_at(first_, 0, 6);
    request.wait_limits.interrupted = &enough;
    EXPECT_EQ(join(request).status().code(), TUTTI_ABORTED) << "the others took longer than its deadline";
  });
  EXPECT_TRUE(begun());
  for (int i = 0; i < 8; ++i) {  // a second for each would be too long
    const auto results = join_all(2, [&](int rank, JoinRequest& request) { request = request_at(second_, rank, 20); });
    for (const auto& result : results) EXPECT_TRUE(result.ok()) << result.status().text();
  }
  enough = true;
  alone.join();
}

TEST(Join, ABootstrapThatThrowsEndsTheMeetingAndItsWordsAreTold) {
  tutti_unique_id told{};
  const tutti_bootstrap broken{sizeof(tutti_bootstrap), &told,
                               [](void* ctx, const void* in, std::size_t, void*, std::uint64_t) -> int {
                                 std::memcpy(ctx, static_cast<const unsigned char*>(in) + 1, sizeof(tutti_unique_id));
                                 throw 42;
                               }};
  JoinRequest request = request_of(0, 2);
  request.bootstrap = &broken;
  EXPECT_EQ(join(request).status().code(), TUTTI_INTERNAL_ERROR);
  JoinRequest late = request_of(1, 2);
  late.id = &told;
  EXPECT_THAT(join(late).status().text(), HasSubstr("an exception of an unknown type"));
}

// The helper of these tests: nobody listens yet at a port that was given.
TEST(OwnPorts, AreGivenOnceEachBeforeAnyIsGivenAgain) {
  OwnPorts ports;
  std::set<std::uint16_t> given;
  for (unsigned i = 0; i < OwnPorts::kPorts; ++i) ASSERT_TRUE(given.insert(ports.take_free()).second);
  EXPECT_EQ(given.count(own_ports.take_free()), 0u) << "another stretch";
}

TEST(Join, ARankOutsideTheSizeIsRefusedAtOnce) {
  const tutti_unique_id id = id_of_test();
  JoinRequest request = request_of(4, 4);
  request.id = &id;
  const auto result = join(request);
  EXPECT_EQ(result.status().code(), TUTTI_INVALID_ARGUMENT);
  EXPECT_THAT(result.status().text(), HasSubstr("Rank 4 is outside a group of 4 ranks"));
  request.ranks = 0;
  EXPECT_THAT(join(request).status().text(), HasSubstr("group of 0 ranks"));
}

TEST(Join, ARankOutsideTheSizeIsToldToTheOthers) {
  const tutti_unique_id id = id_of_test();
  const std::string address = "tcp://127.0.0.1:" + std::to_string(free_port());
  for (const bool by_id : {true, false}) {
    const auto results = join_all(
        3,
        [&](int thread, JoinRequest& request) {
          if (by_id) request.id = &id;
          if (!by_id) request.address = address;
          request.settings.secret = "s3cret";
          request.rank = thread == 2 ? 3 : thread;
        },
        120);
    expect_all_fail(results, TUTTI_INVALID_ARGUMENT, {"Rank 3 is outside a group of 3 ranks"});
  }
}

TEST(Join, TwoProcessesWithTheSameRankAreBothNamedToAll) {
  const tutti_unique_id id = id_of_test();
  const auto results = join_all(3, [&](int thread, JoinRequest& request) {
    request.id = &id;
    request.rank = thread == 2 ? 1 : thread;
  });
  expect_all_fail(results, TUTTI_INVALID_ARGUMENT, {"same rank", "rank 1 (", std::to_string(::getpid())});
  EXPECT_EQ(results[0].status().error().guilty.size(), 2u);
}

TEST(Join, DifferingSizesAreNamedToAll) {
  const tutti_unique_id id = id_of_test();
  const auto results = join_all(3, [&](int thread, JoinRequest& request) {
    request.id = &id;
    request.ranks = thread == 2 ? 4 : 3;
  });
  expect_all_fail(results, TUTTI_INVALID_ARGUMENT, {"of 3", "of 4"});
}

TEST(Join, MissingRanksAreNamedToThoseThatWaited) {
  const tutti_unique_id id = id_of_test();
  const auto results = join_all(
      3,
      [&](int thread, JoinRequest& request) {
        request.id = &id;
        request.ranks = 7;
        request.rank = thread == 2 ? 5 : thread;
      },
      0.5);
  expect_all_fail(results, TUTTI_TIMEOUT, {"ranks 2-4, 6 of 7 did not join within 500 ms"});
  EXPECT_EQ(results[0].status().error().guilty.size(), 4u);
  EXPECT_EQ(results[0].status().error().limit_ns, 500'000'000u);
}

TEST(Join, ALateRankLearnsWhyTheCreationFailed) {
  const tutti_unique_id id = id_of_test();
  join_all(2, [&](int, JoinRequest& request) {
    request.id = &id;
    request.rank = 0;
    request.ranks = 3;
  });
  JoinRequest late = request_of(2, 3, 5);
  late.id = &id;
  EXPECT_THAT(join(late).status().text(), HasSubstr("same rank"));
}

TEST(Join, AnIdWhoseCreationFailedSaysThatItServesNoOther) {
  const tutti_unique_id id = id_of_test();
  JoinRequest alone = request_of(0, 2, 0.2);
  alone.id = &id;
  const auto first = join(alone);
  EXPECT_EQ(first.status().code(), TUTTI_TIMEOUT);
  EXPECT_THAT(first.status().text(), testing::Not(HasSubstr("failed already")));
  const auto again = join_all(2, [&](int, JoinRequest& request) { request.id = &id; });
  expect_all_fail(again, TUTTI_TIMEOUT,
                  {"The creation with this unique id has failed already: rank 1 of 2 did not join within 200 ms",
                   "An id serves one creation: make another"});
}

TEST(Join, AWrongSecretIsASentenceAndDoesNotDisturbTheOthers) {
  const std::string address = "tcp://127.0.0.1:" + std::to_string(free_port());
  const auto results = join_all(3, [&](int thread, JoinRequest& request) {
    request.address = address;
    request.settings.secret = thread == 2 ? "wrong" : "right";
    request.rank = thread % 2;
    request.ranks = 2;
    if (thread == 2) request.rank = 1;
    if (thread == 2) request.wait_limits = patience_of(1);
  });
  EXPECT_TRUE(results[0].ok()) << results[0].status().text();
  EXPECT_TRUE(results[1].ok()) << results[1].status().text();
  ASSERT_FALSE(results[2].ok());
  // As a rule the others have met, and nobody listens there any more.
  EXPECT_THAT(results[2].status().text(), testing::AnyOf(HasSubstr("did not reach"), HasSubstr("has another key")));
}

TEST(Join, AWrongSecretOfAMissingRankIsToldToBothSides) {
  const std::string address = "tcp://127.0.0.1:" + std::to_string(free_port());
  const auto results = join_all(
      2,
      [&](int thread, JoinRequest& request) {
        request.address = address;
        request.settings.secret = thread == 1 ? "wrong" : "right";
      },
      1);
  EXPECT_THAT(results[0].status().text(), HasSubstr("rank 1 of 2 did not join"));
  EXPECT_THAT(results[0].status().text(), HasSubstr("another key"));
  EXPECT_THAT(results[0].status().error().remedy, HasSubstr("the same unique id, TUTTI_SECRET"));
  EXPECT_EQ(results[1].status().code(), TUTTI_INVALID_ARGUMENT);
  EXPECT_THAT(results[1].status().text(), HasSubstr("TUTTI_SECRET"));
}

TEST(Join, ATakenPortIsNamed) {
  const auto holder = listen_on("lo", 0, 0);
  const std::string address = "tcp://127.0.0.1:" + std::to_string(holder->addresses.front().port());
  JoinRequest request = request_of(0, 2, 2);
  request.address = address;
  request.settings.secret = "s";
  const auto result = join(request);
  EXPECT_EQ(result.status().code(), TUTTI_SYSTEM_ERROR);
  EXPECT_THAT(result.status().text(), HasSubstr(address.substr(6)));
  EXPECT_THAT(result.status().text(), HasSubstr("Address already in use"));
}

TEST(Join, ARankThatFindsNobodyAtTheWildcardReadsWhichMachineThatIs) {
  JoinRequest request = request_of(1, 2, .2);
  request.address = "tcp://*:" + std::to_string(free_port());
  request.settings.secret = "s";
  const auto result = join(request);
  EXPECT_EQ(result.status().code(), TUTTI_TIMEOUT);
  EXPECT_THAT(result.status().text(), HasSubstr("(which is this machine to ranks other than 0)"));
  EXPECT_THAT(result.status().text(), HasSubstr("127.0.0.1:"));
}

TEST(Join, AnAddressOfAnotherMachineNeedsASecret) {
  JoinRequest request = request_of(1, 2, 2);
  request.address = "tcp://192.0.2.1:4242";
  const auto result = join(request);
  EXPECT_EQ(result.status().code(), TUTTI_INVALID_ARGUMENT);
  EXPECT_THAT(result.status().error().remedy, HasSubstr("TUTTI_SECRET"));
}

TEST(Join, ASecretFileIsReadAndAMissingOneNamed) {
  const TemporaryFolder folder;
  std::ofstream(folder.path() + "/secret") << "shh\n";
  const std::string address = "tcp://127.0.0.1:" + std::to_string(free_port());
  const auto results = join_all(2, [&](int rank, JoinRequest& request) {
    request.address = address;
    if (rank == 0) request.settings.secret_file = folder.path() + "/secret";
    if (rank == 1) request.settings.secret = "shh";
  });
  for (const auto& result : results) EXPECT_TRUE(result.ok()) << result.status().text();
  JoinRequest request = request_of(1, 2, 2);
  request.address = address;
  std::ofstream(folder.path() + "/empty") << "\n";
  for (const char* bad : {"/none", "/", "/empty"}) {
    request.settings.secret_file = folder.path() + bad;
    const auto result = join(request);
    EXPECT_EQ(result.status().code(), TUTTI_INVALID_ARGUMENT) << bad;
    EXPECT_THAT(result.status().text(), HasSubstr("TUTTI_SECRET_FILE=\"" + request.settings.secret_file + "\"")) << bad;
  }
}

TEST(Join, ASecretMayComeThroughAPipeInParts) {
  const TemporaryFolder folder;
  const std::string pipe = folder.path() + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const std::string address = "tcp://127.0.0.1:" + std::to_string(free_port());
  std::thread writer([&] {
    UniqueFd out;
    EXPECT_TRUE(eventually([&] {  // until somebody reads
      out = UniqueFd(::open(pipe.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
      return static_cast<bool>(out);
    }));
    for (const std::string_view part : {"s", "h", "h\n"}) {
      ::usleep(50'000);
      EXPECT_EQ(::write(out.get(), part.data(), part.size()), static_cast<ssize_t>(part.size()));
    }
  });
  const auto results = join_all(2, [&](int rank, JoinRequest& request) {
    request.address = address;
    if (rank == 0) request.settings.secret_file = pipe;
    if (rank == 1) request.settings.secret = "shh";
  });
  writer.join();
  for (const auto& result : results) EXPECT_TRUE(result.ok()) << result.status().text();
  // Nobody writes, and then somebody who does not end.
  JoinRequest request = request_of(0, 2, 0.2);
  request.address = address;
  request.settings.secret_file = pipe;
  EXPECT_THAT(join(request).status().text(), HasSubstr("has not been written to its end within 200 ms"));
  const UniqueFd held(::open(pipe.c_str(), O_RDWR | O_CLOEXEC));
  request.wait_limits = patience_of(0.2);
  const auto result = join(request);
  EXPECT_EQ(result.status().code(), TUTTI_TIMEOUT) << result.status().text();
}

TEST(Join, NonsenseAddressesAreRefusedWithTheForms) {
  for (const char* address : {"udp://x", "tcp://nowhere", "file://relative", "id:12", "tutti"}) {
    JoinRequest request = request_of(1, 2, 2);
    request.address = address;
    const auto result = join(request);
    EXPECT_EQ(result.status().code(), TUTTI_INVALID_ARGUMENT) << address;
    EXPECT_FALSE(result.status().error().remedy.empty()) << address;
  }
}

TEST(Join, ThePrintedIdIsAnAddress) {
  const std::string text = id_to_text(id_of_test());
  const auto results =
      join_all(2, [&](int rank, JoinRequest& request) { request.address = rank == 0 ? "id:" + text : text; });
  for (const auto& result : results) EXPECT_TRUE(result.ok()) << result.status().text();
}

TEST(Join, AFileServesOneGroupAfterAnotherAndIsGoneAfterwards) {
  const TemporaryFolder folder;
  for (int i = 0; i < 4; ++i) {
    const auto results =
        join_all(3, [&](int, JoinRequest& request) { request.address = "file://" + folder.path() + "/meet"; });
    for (const auto& result : results) EXPECT_TRUE(result.ok()) << result.status().text();
    EXPECT_TRUE(folder.empty());
  }
}

TEST(Join, GroupsInQuickSuccessionAtOneFileDoNotMixUp) {
  const TemporaryFolder folder;
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    ranks.emplace_back([&, rank] {
      for (int i = 0; i < 10; ++i) {
        JoinRequest request = request_of(rank, 3);
        request.address = "file://" + folder.path() + "/meet";
        const auto result = join(request);
        ASSERT_TRUE(result.ok()) << i << ": " << result.status().text();
      }
    });
  }
  for (std::thread& thread : ranks) thread.join();
  EXPECT_TRUE(folder.empty());
}

// Writes the file of a rendezvous, with the word after `field` replaced.
std::string leave_file(const std::string& path, const std::string& field, const std::string& value) {
  UniqueIdContents old;
  old.key = random_key();
  old.addresses.push_back(loopback(1));
  const auto text = write_id_file(path, old);
  EXPECT_TRUE(text.ok()) << text.status().text();
  std::string changed = *text;
  const auto begin = changed.find("\n" + field + " ") + field.size() + 2;
  changed.replace(begin, changed.find('\n', begin) - begin, value);
  std::ofstream(path) << changed;
  return changed;
}

TEST(Join, AFileThatADeadProcessLeftIsReplaced) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/meet";
  leave_file(path, "pid", "4194000");
  const auto results = join_all(2, [&](int, JoinRequest& request) { request.address = "file://" + path; });
  for (const auto& result : results) EXPECT_TRUE(result.ok()) << result.status().text();
  EXPECT_TRUE(folder.empty());
}

TEST(Join, WhatFailsOnRank0AloneLeavesNothingBehind) {
  const TemporaryFolder folder;
  JoinRequest request = request_of(0, 2, 5);
  request.address = "file://" + folder.path() + "/meet";
  request.settings.port_range = only(free_port());  // the rendezvous and the rank want one each
  EXPECT_EQ(join(request).status().code(), TUTTI_SYSTEM_ERROR);
  EXPECT_TRUE(folder.empty());
  const auto results = join_all(2, [&](int, JoinRequest& again) { again.address = request.address; });
  for (const auto& result : results) EXPECT_TRUE(result.ok()) << result.status().text();
}

TEST(Join, AnIdsMakerThatCannotJoinTellsTheOthers) {
  const tutti_unique_id id = id_of_test();
  const auto holder = listen_on("lo", 0, 0);
  const auto results = join_all(2, [&](int rank, JoinRequest& request) {
    request.id = &id;
    if (rank == 0) request.settings.port_range = only(holder->addresses.front().port());
  });
  expect_all_fail(results, TUTTI_SYSTEM_ERROR, {"is free to listen on"});
  ASSERT_EQ(results[1].status().error().guilty.size(), 1u);
  EXPECT_EQ(results[1].status().error().guilty[0].rank, 0);
}

// What one rank lacks, at every place where ranks can meet. The connect timeout is far longer than the test may take.
struct Lacking {
  const char* place;
  int rank;
};
class ARankThatCannotTakePart : public testing::TestWithParam<Lacking> {
 protected:
  void at(int rank, JoinRequest& request) const {
    const std::string place = GetParam().place;
    if (place == "id") request.id = &id_;
    if (place == "text") request.address = id_to_text(id_);
    if (place == "file") request.address = "file://" + folder_.path() + "/meet";
    if (place == "address" || place == "secret") request.address = address_;
    if (place == "secret") request.settings.secret = "s3cret";
    if (rank != GetParam().rank) ::usleep(30'000 * static_cast<unsigned>(rank));  // some come later
  }
  void expect_told(const std::vector<Result<Membership>>& results, const char* sentence) const {
    const auto& own = results[static_cast<std::size_t>(GetParam().rank)].status();
    for (const auto& result : results) {
      ASSERT_FALSE(result.ok());
      EXPECT_EQ(result.status().text(), own.text());
      EXPECT_EQ(result.status().code(), own.code());
      EXPECT_THAT(result.status().text(), HasSubstr(sentence));
      EXPECT_THAT(result.status().text(), HasSubstr("rank " + std::to_string(GetParam().rank) + " ("));
      if (&result.status() == &own) continue;
      ASSERT_EQ(result.status().error().guilty.size(), 1u);
      EXPECT_EQ(result.status().error().guilty[0].rank, GetParam().rank);
      EXPECT_EQ(result.status().error().guilty[0].pid, ::getpid());
    }
    EXPECT_LT(now_ns() - begin_ns_, 15'000'000'000u);
  }

 private:
  const TemporaryFolder folder_;
  const tutti_unique_id id_ = id_of_test();
  const std::string address_ = "tcp://127.0.0.1:" + std::to_string(free_port());
  const std::uint64_t begin_ns_ = now_ns();
};
INSTANTIATE_TEST_SUITE_P(At, ARankThatCannotTakePart,
                         testing::Values(Lacking{"id", 0}, Lacking{"id", 2}, Lacking{"text", 1}, Lacking{"file", 0},
                                         Lacking{"file", 2}, Lacking{"address", 0}, Lacking{"address", 1},
                                         Lacking{"secret", 0}, Lacking{"secret", 2}),
                         [](const auto& p) { return std::string(p.param.place) + std::to_string(p.param.rank); });

TEST_P(ARankThatCannotTakePart, ForWantOfAPortIsToldToAllAtOnce) {
  const auto holder = listen_on("lo", 0, 0);
  const auto results = join_all(
      3,
      [&](int rank, JoinRequest& request) {
        at(rank, request);
        // A rank 0 that listens for all would have nowhere to do so.
        if (rank != GetParam().rank || (rank == 0 && std::string(GetParam().place) == "file")) return;
        request.settings.port_range = only(holder->addresses.front().port());
      },
      120);
  if (GetParam().rank == 0 && std::string(GetParam().place) == "file") {
    for (const auto& result : results) EXPECT_TRUE(result.ok()) << result.status().text();
    return;
  }
  expect_told(results, "TUTTI_PORT_RANGE has 1 port, a rank needs 2, n ranks on one machine need 2n");
}

TEST_P(ARankThatCannotTakePart, ByWhatItWasToldBeforeIsToldToAllAtOnce) {
  const auto results = join_all(
      3,
      [&](int rank, JoinRequest& request) {
        at(rank, request);
        if (rank == GetParam().rank) request.so_far = Status(TUTTI_INVALID_ARGUMENT, "TUTTI_LANES=\"x\" is no number");
      },
      120);
  expect_told(results, "TUTTI_LANES=\"x\" is no number");
}

TEST(Join, ARank0WhosePortIsTheLastOneTellsTheOthers) {
  const TemporaryFolder folder;
  const std::uint16_t port = free_port();  // the rendezvous and the rank want one each
  const auto results = join_all(
      2,
      [&](int rank, JoinRequest& request) {
        request.address = "file://" + folder.path() + "/meet";
        if (rank == 0) request.settings.port_range = only(port);
      },
      120);
  expect_all_fail(results, TUTTI_SYSTEM_ERROR, {"is free to listen on", "rank 0 ("});
}

TEST(Join, ARankThatIsGivenUpBeforeItCameIsToldToTheOthers) {
  const std::string address = "tcp://127.0.0.1:" + std::to_string(free_port());
  const std::atomic<bool> enough{true};
  const auto results = join_all(
      2,
      [&](int rank, JoinRequest& request) {
        if (rank == 1) ::usleep(200'000);
        request.address = address;
        request.settings.secret = "s";
        if (rank == 1) request.wait_limits.interrupted = &enough;
      },
      120);
  expect_all_fail(results, TUTTI_ABORTED, {});
  EXPECT_THAT(results[0].status().text(), HasSubstr("rank 1 ("));
}

TEST(Join, AnIdMakesOneCommunicatorAndSaysSoAtOnce) {
  for (const int ranks : {1, 2}) {
    const tutti_unique_id id = id_of_test();
    for (const auto& result : join_all(ranks, [&](int, JoinRequest& request) { request.id = &id; })) {
      EXPECT_TRUE(result.ok()) << result.status().text();
    }
    const std::uint64_t begin = now_ns();
    for (const int again : {2, 1}) {
      const auto results = join_all(again, [&](int, JoinRequest& request) { request.id = &id; }, 120);
      expect_all_fail(results, TUTTI_INVALID_USAGE,
                      {"The unique id has made its communicator already", "An id serves one creation: make another"});
    }
    EXPECT_LT(now_ns() - begin, 10'000'000'000u);
  }
}

Key key_of(const tutti_unique_id& id) { return unpack_unique_id(id)->key; }

void expect_told_of_its_use(const tutti_unique_id& id) {
  for (const int ranks : {1, 2}) {
    const auto results = join_all(ranks, [&](int, JoinRequest& request) { request.id = &id; }, 120);
    expect_all_fail(results, TUTTI_INVALID_USAGE, {"The unique id has made its communicator already", "make another"});
  }
}

TEST(Join, AnIdIsKnownToBeUsedAfterThousandsOfOthers) {
  const tutti_unique_id id = id_of_test();
  EXPECT_TRUE(use_up_id(key_of(id)).ok());
  for (int i = 0; i < 3000; ++i) EXPECT_TRUE(use_up_id(key_of(id_of_test())).ok());
  expect_told_of_its_use(id);
}

TEST(Join, AnIdIsKnownToBeUsedWhenItsListeningSocketIsClosed) {
  Settings settings = settings_of_test();
  const std::uint16_t port = free_port();
  settings.port_range = only(port);
  const auto id = make_unique_id(settings);
  ASSERT_TRUE(id.ok()) << id.status().text();
  EXPECT_TRUE(use_up_id(key_of(*id)).ok());
  EXPECT_TRUE(eventually([&] {
    settings.port_range = only(free_port());
    const auto another = make_unique_id(settings);
    return another.ok() && use_up_id(key_of(*another)).ok() && listen_on("lo", port, port).ok();
  }));
  expect_told_of_its_use(*id);
}

TEST(Join, AnIdThatNobodyComesToTakesAFewHundredBytes) {
  constexpr std::size_t kIds = 2000;
  static_cast<void>(id_of_test());
  const std::size_t before = ::mallinfo2().uordblks;
  for (std::size_t i = 0; i < kIds; ++i) static_cast<void>(id_of_test());
  EXPECT_LT((::mallinfo2().uordblks - before) / kIds, 400u);
}

// How often; TEST_CREATIONS sets another number.
int creations() {
  const char* told = std::getenv("TEST_CREATIONS");
  return told != nullptr ? std::atoi(told) : 50;
}

TEST(Join, FailedAndUsedIdsGiveBackAllTheyTook) {
  const tutti_unique_id awaited = id_of_test();  // for which one thread and a few descriptors stay
  static_cast<void>(world_of(2));
  ::usleep(700'000);
  const Holdings before = Holdings::now();
  for (int i = 0; i < creations(); ++i) {
    const tutti_unique_id id = id_of_test();
    JoinRequest request = request_of(0, 2, 0.001);
    request.id = &id;
    EXPECT_EQ(join(request).status().code(), TUTTI_TIMEOUT);
  }
  EXPECT_TRUE(holds_no_more_than(before, std::chrono::seconds(1)));
  for (int i = 0; i < creations() / 5; ++i) EXPECT_EQ(world_of(2).size(), 2u);
  EXPECT_TRUE(holds_no_more_than(before, std::chrono::seconds(1)));
  EXPECT_TRUE(use_up_id(key_of(awaited)).ok());
}

// A place at which several creations can follow one another: an address with a secret, one without, a file.
class Again : public testing::TestWithParam<const char*> {
 protected:
  void at(JoinRequest& request) const {
    const std::string place = GetParam();
    request.address = place == "file" ? "file://" + folder_.path() + "/meet" : address_;
    if (place == "secret") request.settings.secret = "s3cret";
  }

 private:
  const TemporaryFolder folder_;
  const std::string address_ = "tcp://127.0.0.1:" + std::to_string(free_port());
};
INSTANTIATE_TEST_SUITE_P(At, Again, testing::Values("secret", "address", "file"), [](const auto& p) { return p.param; });

TEST_P(Again, ACreationThatFailedCanBeTriedAgainAtOnceWhoeverComesFirst) {
  for (const int first : {0, 1}) {
    const auto failed = join_all(2, [&](int rank, JoinRequest& request) {
      at(request);
      if (rank == 1) request.ranks = 3;
    });
    expect_all_fail(failed, TUTTI_INVALID_ARGUMENT, {"of 2", "of 3"});
    const auto results = join_all(2, [&](int rank, JoinRequest& request) {
      at(request);
      if (rank != first) ::usleep(100'000);
    });
    for (const auto& result : results) EXPECT_TRUE(result.ok()) << first << " first: " << result.status().text();
  }
}

TEST_P(Again, RetriesHoldNoMoreDescriptorsThanOneTry) {
  JoinRequest request = request_of(0, 2, 0.001);
  at(request);
  EXPECT_EQ(join(request).status().code(), TUTTI_TIMEOUT);
  const Holdings after_one = Holdings::now();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(join(request).status().code(), TUTTI_TIMEOUT);
  EXPECT_TRUE(holds_no_more_than(after_one));
}

TEST_P(Again, AnAttemptThatWasGivenUpIsNotInTheWayOfTheNext) {
  JoinRequest request = request_of(0, 2);
  at(request);
  for (int i = 0; i < 3; ++i) {
    std::atomic<bool> enough{true};
    request.wait_limits.interrupted = &enough;
    EXPECT_EQ(join(request).status().code(), TUTTI_ABORTED);
  }
  // Who comes while the one that was given up is still there is told so.
  const auto results = join_all(2, [&](int rank, JoinRequest& next) {
    at(next);
    if (rank != 0) ::usleep(100'000);
  });
  for (const auto& result : results) EXPECT_TRUE(result.ok()) << result.status().text();
}

TEST_P(Again, ARankThatComesAgainAloneIsToldThatNobodyElseDid) {
  static_cast<void>(join_all(2, [&](int rank, JoinRequest& request) {
    at(request);
    if (rank == 1) request.ranks = 3;
  }));
  JoinRequest request = request_of(1, 2, 0.3);
  at(request);
  const auto result = join(request);
  EXPECT_EQ(result.status().code(), TUTTI_TIMEOUT);
  EXPECT_THAT(result.status().text(),
              testing::AnyOf(HasSubstr("has not begun another"), HasSubstr("has not announced it")));
}

TEST(Join, AFileOfAnotherMachinesProcessIsRefusedAndKept) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/meet";
  const std::string text = leave_file(path, "machine", "12345");
  JoinRequest request = request_of(0, 2, 2);
  request.address = "file://" + path;
  const auto result = join(request);
  EXPECT_EQ(result.status().code(), TUTTI_INVALID_USAGE) << result.status().text();
  EXPECT_THAT(result.status().text(), HasSubstr("pid " + std::to_string(::getpid())));
  std::stringstream content;
  content << std::ifstream(path).rdbuf();
  EXPECT_EQ(content.str(), text);
}

TEST(Join, AFileThatIsNotOursIsRefusedAndKept) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/thesis";
  for (const int mode : {0600, 0644}) {
    std::ofstream(path) << "years of work";
    ::chmod(path.c_str(), static_cast<mode_t>(mode));
    JoinRequest request = request_of(0, 2, 2);
    request.address = "file://" + path;
    const auto result = join(request);
    EXPECT_EQ(result.status().code(), TUTTI_INVALID_ARGUMENT);
    EXPECT_THAT(result.status().text(), HasSubstr(path + " is no rendezvous file"));
    std::string content;
    std::getline(std::ifstream(path), content);
    EXPECT_EQ(content, "years of work");
  }
}

TEST(RefusedBy, TellsWhetherItDiedOrCannotBeReachedFromHere) {
  constexpr std::array<unsigned char, 4> loopback = {127, 0, 0, 1};
  constexpr std::array<unsigned char, 4> other = {10, 1, 2, 3};
  const Member self = this_member(0);
  Introduction peer{this_member(1), {SocketAddress::v4(loopback, 5)}};
  EXPECT_THAT(refused_by(peer, self, "127.0.0.1:5: refused").message, HasSubstr("died while"));
  peer.member.machine += 1;
  const Error elsewhere = refused_by(peer, self, "127.0.0.1:5: refused");
  EXPECT_THAT(elsewhere.message, testing::AllOf(HasSubstr("loopback addresses alone"), testing::Not(HasSubstr("died"))));
  EXPECT_THAT(elsewhere.remedy, HasSubstr("TUTTI_INTERFACE"));
  peer.addresses.push_back(SocketAddress::v4(other, 5));
  EXPECT_THAT(refused_by(peer, self, "10.1.2.3:5: refused").message, HasSubstr("died while"));
}

TEST(Named, IsAFailureThatTellsWhoseItIsByTheRanksWholeNumber) {
  const Member one = this_member(1);
  const auto read = [&](const char* sentence) { return named(Status(TUTTI_SYSTEM_ERROR, sentence), one).text(); };
  for (const char* whose : {"rank 1 lacks memory", "the memory of rank 1", "rank 12 waits for rank 1"}) {
    EXPECT_THAT(read(whose), testing::Not(HasSubstr("cannot join"))) << whose;
  }
  for (const char* sentence : {"no memory", "rank 12 is not there", "ranks 10 and 11, and rank 100, are not there"}) {
    EXPECT_THAT(read(sentence), HasSubstr(one.text() + " cannot join: " + sentence));
  }
}

TEST(Durations, AreNeverToldAsZero) {
  EXPECT_EQ(duration_text(30'000'000'000), "30 s");
  EXPECT_EQ(duration_text(1'500'000'000), "1.5 s");
  EXPECT_EQ(duration_text(20'000'000), "20 ms");
  EXPECT_EQ(duration_text(999'999), "999 us");
  EXPECT_EQ(duration_text(7), "7 ns");
}

TEST(Join, AFileThatOthersCanReadIsRefused) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/meet";
  leave_file(path, "machine", "12345");
  ::chmod(path.c_str(), 0644);
  JoinRequest request = request_of(1, 2, 2);
  request.address = "file://" + path;
  const auto result = join(request);
  EXPECT_EQ(result.status().code(), TUTTI_INVALID_ARGUMENT);
  EXPECT_THAT(result.status().text(), HasSubstr(path));
  EXPECT_THAT(result.status().text(), HasSubstr("no secret"));
}

TEST(Join, AFolderThatDoesNotExistIsNamed) {
  JoinRequest request = request_of(0, 2, 2);
  request.address = "file:///nosuchfolder/meet";
  EXPECT_THAT(join(request).status().text(), HasSubstr("/nosuchfolder/meet"));
}

TEST(Join, OnOneMachineNeitherTcpNorALauncherNeedsASecret) {
  const std::string tcp = "tcp://127.0.0.1:" + std::to_string(free_port());
  const auto by_tcp = join_all(3, [&](int, JoinRequest& request) { request.address = tcp; });
  for (const auto& result : by_tcp) EXPECT_TRUE(result.ok()) << result.status().text();

  const std::string job = "test" + std::to_string(random_u64());
  const std::string master = std::to_string(free_port());
  using Variables = std::map<std::string, std::string>;
  const auto launched = [&](const std::function<Variables(std::string)>& variables) {
    const auto results = join_all(3, [&](int rank, JoinRequest& request) {
      request.address = "env://";
      request.rank = request.ranks = -1;
      request.environment = [values = variables(std::to_string(rank))](const char* name) -> const char* {
        const auto place = values.find(name);
        return place == values.end() ? nullptr : place->second.c_str();
      };
    });
    for (const auto& result : results) EXPECT_TRUE(result.ok()) << result.status().text();
  };
  launched([&](const std::string& rank) {
    return Variables{{"OMPI_COMM_WORLD_RANK", rank},
                     {"OMPI_COMM_WORLD_SIZE", "3"},
                     {"OMPI_COMM_WORLD_LOCAL_SIZE", "3"},
                     {"PMIX_NAMESPACE", job}};
  });
  launched([&](const std::string& rank) {
    return Variables{{"RANK", rank}, {"WORLD_SIZE", "3"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", master}};
  });
  launched([&](const std::string& rank) {
    return Variables{{"SLURM_PROCID", rank},
                     {"SLURM_STEP_ID", "0"},
                     {"SLURM_JOB_ID", job},
                     {"SLURM_NTASKS", "3"},
                     {"SLURM_NNODES", "1"}};
  });
}

// What torchrun sets, for rank `rank` of two.
EnvironmentLookup torchrun_of(int rank, std::uint16_t port) {
  return [rank, port = std::to_string(port)](const char* name) -> const char* {
    const std::string_view asked = name;
    if (asked == "RANK") return rank == 0 ? "0" : "1";
    if (asked == "WORLD_SIZE") return "2";
    if (asked == "MASTER_ADDR") return "127.0.0.1";
    if (asked == "MASTER_PORT") return port.c_str();
    return nullptr;
  };
}

TEST(Join, TorchrunsAgentMayHoldThePort) {
  const auto agent = listen_on("lo", 0, 0);
  const auto results = join_all(2, [&](int rank, JoinRequest& request) {
    request.address = "env://";
    request.rank = request.ranks = -1;
    request.settings.secret = "s";
    request.environment = torchrun_of(rank, agent->addresses.front().port());
  });
  for (const auto& result : results) EXPECT_TRUE(result.ok()) << result.status().text();
}

TEST(Join, AnotherJobsRendezvousAtTorchrunsPortIsNoVerdict) {
  const std::uint16_t port = free_port();
  std::atomic<bool> enough{false};
  std::thread other_job([&] {
    JoinRequest request = request_of(0, 2);
    request.address = "tcp://127.0.0.1:" + std::to_string(port);
    request.settings.secret = "another job's";
    request.wait_limits.interrupted = &enough;
    static_cast<void>(join(request));
  });
  EXPECT_TRUE(eventually([&] {
    const auto knock = connect_to(loopback(port));
    return knock.ok() && connect_result(knock->get()) == 0;
  }));
  const auto results = join_all(2, [&](int rank, JoinRequest& request) {
    if (rank == 0) ::usleep(700'000);  // rank 1 meets nobody but the other job for that long
    request.address = "env://";
    request.rank = request.ranks = -1;
    request.settings.secret = "ours";
    request.environment = torchrun_of(rank, port);
  });
  enough = true;
  other_job.join();
  for (const auto& result : results) EXPECT_TRUE(result.ok()) << result.status().text();
}

TEST(Join, AKeyThatIsRefusedForAMomentIsTriedAgain) {
  const SocketAddress address = loopback(free_port());
  auto held = listen_at(address);
  ASSERT_TRUE(held.ok()) << held.status().text();
  Listener listener;
  listener.addresses = {address};
  listener.sockets.push_back(std::move(held).value());
  std::atomic<bool> over{false};
  std::thread earlier_job([&] {  // answers that it has another key, and ends soon
    {
      Acceptor acceptor(std::move(listener), random_key(), kRendezvousPurpose, {});
      EXPECT_TRUE(eventually([&] {
        acceptor.step();
        return acceptor.wrong_keys() > 2;
      }));
    }
    over = true;
    over.notify_all();
  });
  const auto results = join_all(2, [&](int rank, JoinRequest& request) {
    if (rank == 0) over.wait(false);
    request.address = "tcp://" + address.text();
    request.settings.secret = "ours";
  });
  earlier_job.join();
  for (const auto& result : results) EXPECT_TRUE(result.ok()) << result.status().text();
}

// An allgather among threads of one process.
struct Exchange {
  explicit Exchange(int n) : arrive(n) {}
  std::barrier<> arrive;
  std::vector<unsigned char> all;
};
struct Party {
  Exchange* exchange;
  int rank;
};
int exchange_bytes(void* ctx, const void* in, std::size_t n, void* out, std::uint64_t) {
  const auto* party = static_cast<const Party*>(ctx);
  Exchange& exchange = *party->exchange;
  std::memcpy(exchange.all.data() + static_cast<std::size_t>(party->rank) * n, in, n);
  exchange.arrive.arrive_and_wait();
  std::memcpy(out, exchange.all.data(), 4 * n);
  return 0;
}

TEST(Join, ThroughACallersBootstrap) {
  Exchange exchange(4);
  exchange.all.resize(4 * 4096);
  const auto results = join_all(4, [&](int rank, JoinRequest& request) {
    auto* const party = new Party{&exchange, rank};
    request.bootstrap = new tutti_bootstrap{sizeof(tutti_bootstrap), party, exchange_bytes};
    request.blob = [bootstrap = std::shared_ptr<const tutti_bootstrap>(request.bootstrap),
                    kept = std::shared_ptr<Party>(party)](auto, int, int) -> Result<std::vector<std::byte>> {
      return std::vector<std::byte>(1);
    };
  });
  for (const auto& result : results) EXPECT_TRUE(result.ok()) << result.status().text();
}

TEST(Join, ABootstrapThatFailsIsNamed) {
  const tutti_bootstrap broken{sizeof(tutti_bootstrap), nullptr,
                               [](void*, const void*, std::size_t, void*, std::uint64_t) { return 7; }};
  JoinRequest request = request_of(1, 2, 2);
  request.bootstrap = &broken;
  EXPECT_THAT(join(request).status().text(), HasSubstr("code 7"));
}

TEST(Join, ABootstrapTellsAllWhichRankCannotJoin) {
  Exchange exchange(4);
  exchange.all.resize(4 * 4096);
  const auto holder = listen_on("lo", 0, 0);
  std::array<Party, 4> parties;
  std::array<tutti_bootstrap, 4> bootstraps;
  const auto results = join_all(4, [&](int rank, JoinRequest& request) {
    const auto r = static_cast<std::size_t>(rank);
    parties[r] = {&exchange, rank};
    bootstraps[r] = {sizeof(tutti_bootstrap), &parties[r], exchange_bytes};
    request.bootstrap = &bootstraps[r];
    if (rank == 2) request.settings.port_range = only(holder->addresses.front().port());
  });
  for (int rank = 0; rank < 4; ++rank) {
    const auto& status = results[static_cast<std::size_t>(rank)].status();
    EXPECT_EQ(status.code(), TUTTI_SYSTEM_ERROR) << status.text();
    EXPECT_THAT(status.text(), testing::AllOf(HasSubstr("rank 2 ("), HasSubstr("is free to listen on")));
    if (rank == 2) continue;
    EXPECT_EQ(status.text(), results[2].status().text());
    ASSERT_EQ(status.error().guilty.size(), 1u);
    EXPECT_EQ(status.error().guilty[0].rank, 2);
  }
}

TEST(Join, AnAbortEndsTheWaitAndIsToldToTheOthers) {
  const tutti_unique_id id = id_of_test();
  std::atomic<bool> interrupted{false};
  std::thread later([&] {
    ::usleep(200'000);
    interrupted = true;
  });
  const auto results = join_all(2, [&](int rank, JoinRequest& request) {
    request.id = &id;
    request.ranks = 3;
    if (rank == 0) request.wait_limits.interrupted = &interrupted;
  });
  later.join();
  EXPECT_EQ(results[0].status().code(), TUTTI_ABORTED);
  EXPECT_EQ(results[1].status().code(), TUTTI_ABORTED);
  EXPECT_THAT(results[1].status().text(), HasSubstr("rank 0 ("));
}

TEST(Join, TheCallersHookIsCalledAllTheTimeAndCanEndTheWait) {
  const tutti_unique_id id = id_of_test();
  JoinRequest request = request_of(0, 2);
  request.id = &id;
  int calls = 0;
  request.wait_limits.hook = {[](void* ctx) { return ++*static_cast<int*>(ctx) == 50 ? 1 : 0; }, &calls};
  EXPECT_EQ(join(request).status().code(), TUTTI_ABORTED);
  EXPECT_EQ(calls, 50);
}

TEST(Join, TheHookIsAskedWhileTheRootTellsTheOthers) {
  const tutti_unique_id id = id_of_test();
  const auto holder = listen_on("lo", 0, 0);
  JoinRequest request = request_of(0, 2);
  request.id = &id;
  request.settings.port_range = only(holder->addresses.front().port());
  int calls = 0;
  request.wait_limits.hook = {[](void* ctx) { return ++*static_cast<int*>(ctx) == 50 ? 1 : 0; }, &calls};
  EXPECT_EQ(join(request).status().code(), TUTTI_SYSTEM_ERROR);
  EXPECT_EQ(calls, 50);
}

TEST(Join, AFailureWhileDescribingOneselfReachesAll) {
  const tutti_unique_id id = id_of_test();
  const auto results = join_all(4, [&](int rank, JoinRequest& request) {
    request.id = &id;
    request.blob = [rank](auto, int, int) -> Result<std::vector<std::byte>> {
      if (rank == 2) return Status(TUTTI_SYSTEM_ERROR, "rank 2 has no transport");
      return std::vector<std::byte>{};
    };
  });
  expect_all_fail(results, TUTTI_SYSTEM_ERROR, {"rank 2 has no transport"});
}

}  // namespace
}  // namespace tutti::test
