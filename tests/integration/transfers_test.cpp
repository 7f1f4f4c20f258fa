// Point to point: what runs behind the caller's back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/ranks.h"

namespace tutti::test {
namespace {

/// Signals that the thread of this process with this name blocks, as /proc writes them; empty where there is none.
std::string blocked_signals_of(const std::string& thread) {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::ifstream file(task.path() / "comm");
    std::getline(file, name);
    if (name != thread) continue;
    std::ifstream status(task.path() / "status");
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("SigBlk:")) return line.substr(line.find_last_of(" \t") + 1);
    }
  }
  return {};
}

TEST(Transfers, InTheBackgroundRunOnAThreadThatLeavesSignalsToTheProgram) {
  const Ranks ranks(1);
  tutti_queue* queue = nullptr;
  ASSERT_EQ(tutti_queue_create(&queue), TUTTI_SUCCESS) << last_error();
  int x = 1;
  int y = 0;
  ASSERT_EQ(tutti_recv(&y, 1, TUTTI_INT32, 0, ranks[0], {TUTTI_STREAM_QUEUE, queue}, nullptr), TUTTI_SUCCESS)
      << last_error();
  const std::string blocked = blocked_signals_of("tutti transfers");
  ASSERT_FALSE(blocked.empty()) << "the thread has its name";
  constexpr std::uint64_t interrupt_and_terminate = 1u << 1 | 1u << 14;
  EXPECT_EQ(std::stoull(blocked, nullptr, 16) & interrupt_and_terminate, interrupt_and_terminate) << blocked;
  EXPECT_EQ(tutti_send(&x, 1, TUTTI_INT32, 0, ranks[0], {}, nullptr), TUTTI_SUCCESS) << last_error();
  EXPECT_EQ(tutti_queue_wait(queue, 0), TUTTI_SUCCESS);
  EXPECT_EQ(y, 1);
  EXPECT_EQ(tutti_queue_destroy(queue), TUTTI_SUCCESS);
}

tutti_status post(bool sends, void* memory, int peer, std::uint64_t tag, tutti_comm* comm) {
  tutti_call call = TUTTI_CALL_INIT;
  call.tag = tag;
  return sends ? tutti_send(memory, 1, TUTTI_INT32, peer, comm, {}, &call)
               : tutti_recv(memory, 1, TUTTI_INT32, peer, comm, {}, &call);
}

/// Rank 0 sends to itself and receives from itself or anybody, few tags, in any order: each receive in the order of posting
/// gets the first message of its tag that no receive before it got.
TEST(Transfers, MeetInTheOrderOfPosting) {
  const Ranks ranks(1);
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    std::vector<int> kinds(40);  // each tag's sends and receives are as many
    for (std::size_t i = 0; i < kinds.size(); ++i) kinds[i] = static_cast<int>(i / 2 % 3 * 2 + i % 2);
    std::shuffle(kinds.begin(), kinds.end(), random);
    std::array<std::vector<int>, 3> sent;
    std::array<std::vector<int*>, 3> received;
    std::vector<int> values(kinds.size());
    std::vector<int> results(kinds.size(), -1);
    ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      const auto tag = static_cast<std::size_t>(kinds[i] / 2);
      const bool sends = kinds[i] % 2 == 0;
      values[i] = static_cast<int>(i);
      if (sends) sent[tag].push_back(values[i]);
      if (!sends) received[tag].push_back(&results[i]);
      const int peer = sends || random() % 2 == 0 ? 0 : TUTTI_ANY_SOURCE;
      ASSERT_EQ(post(sends, sends ? &values[i] : &results[i], peer, tag, ranks[0]), TUTTI_SUCCESS) << last_error();
    }
    ASSERT_EQ(tutti_group_end(nullptr), TUTTI_SUCCESS) << last_error();
    for (std::size_t tag = 0; tag < 3; ++tag) {
      for (std::size_t i = 0; i < sent[tag].size(); ++i) EXPECT_EQ(*received[tag][i], sent[tag][i]) << "tag " << tag;
    }
  }
}

/// Were the work of each a matter of how many there are, this would take minutes.
TEST(Transfers, OfWhichThereAreManyInAGroupAllFindTheirMatch) {
  Ranks ranks(2);
  constexpr std::size_t count = 20'000;
  ranks.run([](int rank, tutti_comm* comm) {
    std::vector<int> out(count);
    std::vector<int> in(count, -1);
    ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
    for (std::size_t i = 0; i < count; ++i) {
      out[i] = static_cast<int>(i);
      ASSERT_EQ(post(true, &out[i], 1 - rank, i, comm), TUTTI_SUCCESS);
      ASSERT_EQ(post(false, &in[count - 1 - i], 1 - rank, count - 1 - i, comm), TUTTI_SUCCESS);
    }
    ASSERT_EQ(tutti_group_end(nullptr), TUTTI_SUCCESS) << last_error();
    EXPECT_EQ(in, out);
  });
}

/// Lengths around those at which messages travel another way: at once, or only once they are asked for, in one slot or
/// more.
constexpr std::array<std::size_t, 9> lengths = {0, 1, 1000, 16'384, 131'072, 131'073, 262'112, 262'113, 1'000'000};

/// What every rank does in a round, which all know alike: who sends whom how many bytes with which tag.
struct Message {
  int from;
  int to;
  std::size_t bytes;
  std::uint64_t tag;  ///< no other message's in any round: a rank may be a round ahead
  std::vector<unsigned char> content() const {
    std::vector<unsigned char> bytes_of(bytes);
    for (std::size_t i = 0; i < bytes; ++i) {
      bytes_of[i] = static_cast<unsigned char>(i * 7 + i / 251 + tag * 31 + static_cast<std::size_t>(from));
    }
    return bytes_of;
  }
};

std::vector<Message> messages_of_round(std::uint64_t round, int ranks, std::minstd_rand& random) {
  std::vector<Message> messages;
  for (int from = 0; from < ranks; ++from) {
    for (int to = 0; to < ranks; ++to) {
      for (auto left = random() % 4; left > 0; --left) {
        messages.push_back({from, to, lengths[random() % lengths.size()], round << 32 | messages.size()});
      }
    }
  }
  return messages;
}

/// One rank's part in a round.
class Part {
 public:
  Part(int rank, tutti_comm* comm, tutti_queue* queue, const std::vector<Message>& messages)
      : comm_(comm), queue_(queue), random_(static_cast<unsigned>(rank + 1)) {
    for (const Message& message : messages) {
      if (message.from == rank) sends_.push_back({message, message.content()});
      if (message.to == rank) receives_.push_back({message, std::vector<unsigned char>(message.bytes + 1, 0xee)});
    }
    std::shuffle(sends_.begin(), sends_.end(), random_);
    std::shuffle(receives_.begin(), receives_.end(), random_);
  }

  /// All in one group, of nothing but plain transfers, or beside a collective and transfers on a queue.
  void together(bool plain) {
    std::vector<int> sum(3, 1);
    ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
    for (Item& item : receives_) ASSERT_EQ(receive(item, stream(plain)), TUTTI_SUCCESS) << last_error();
    if (!plain) {
      ASSERT_EQ(tutti_all_reduce(sum.data(), sum.data(), 3, TUTTI_INT32, TUTTI_SUM, comm_, {}, nullptr), TUTTI_SUCCESS);
    }
    for (Item& item : sends_) ASSERT_EQ(send(item, stream(plain)), TUTTI_SUCCESS) << last_error();
    ASSERT_EQ(tutti_group_end(nullptr), TUTTI_SUCCESS) << last_error();
  }

  /// The sends behind the caller's back; the receives one by one, some of them when much has come already.
  void one_by_one() {
    for (Item& item : sends_) ASSERT_EQ(send(item, {TUTTI_STREAM_QUEUE, queue_}), TUTTI_SUCCESS) << last_error();
    for (Item& item : receives_) {
      if (random_() % 4 == 0) ::usleep(300);
      ASSERT_EQ(receive(item, {}), TUTTI_SUCCESS) << last_error();
    }
  }

  void check() {
    ASSERT_EQ(tutti_queue_wait(queue_, 0), TUTTI_SUCCESS) << last_error();
    for (const Item& item : receives_) {
      std::vector<unsigned char> wanted = item.message.content();
      wanted.push_back(0xee);
      ASSERT_TRUE(item.memory == wanted) << item.message.bytes << " bytes of rank " << item.message.from;
    }
  }

 private:
  struct Item {
    Message message;
    std::vector<unsigned char> memory;
  };

  tutti_stream stream(bool plain) {
    return plain || random_() % 2 == 0 ? tutti_stream{} : tutti_stream{TUTTI_STREAM_QUEUE, queue_};
  }
  tutti_status send(Item& item, tutti_stream on) {
    tutti_call call = TUTTI_CALL_INIT;
    call.tag = item.message.tag;
    return tutti_send(item.memory.data(), item.memory.size(), TUTTI_UINT8, item.message.to, comm_, on, &call);
  }
  tutti_status receive(Item& item, tutti_stream on) {
    tutti_call call = TUTTI_CALL_INIT;
    call.tag = item.message.tag;
    const int source = random_() % 2 == 0 ? TUTTI_ANY_SOURCE : item.message.from;
    return tutti_recv(item.memory.data(), item.message.bytes, TUTTI_UINT8, source, comm_, on, &call);
  }

  tutti_comm* const comm_;
  tutti_queue* const queue_;
  std::minstd_rand random_;
  std::vector<Item> sends_;
  std::vector<Item> receives_;
};

class TransfersOver : public testing::TestWithParam<const char*> {};

TEST_P(TransfersOver, OfAllLengthsArriveWholeHoweverTheyArePosted) {
  for (const int size : {1, 2, 4}) {
    const Ranks ranks(size, GetParam());
    ranks.run([size](int rank, tutti_comm* comm) {
      tutti_queue* queue = nullptr;
      ASSERT_EQ(tutti_queue_create(&queue), TUTTI_SUCCESS) << last_error();
      std::minstd_rand random(5);
      for (std::uint64_t round = 0; round < 12; ++round) {
        Part part(rank, comm, queue, messages_of_round(round, size, random));
        if (round % 3 == 2) {
          ASSERT_NO_FATAL_FAILURE(part.one_by_one());
        } else {
          ASSERT_NO_FATAL_FAILURE(part.together(round % 3 == 0));
        }
        ASSERT_NO_FATAL_FAILURE(part.check());
      }
      EXPECT_EQ(tutti_queue_destroy(queue), TUTTI_SUCCESS);
    });
  }
}

// More than a receiver keeps of what it has not asked for, all with one tag: in order all the same.
TEST_P(TransfersOver, AheadOfTheReceiverByMoreThanItKeepsStayInOrder) {
  constexpr std::size_t count = 120;
  constexpr std::size_t bytes = 80'000;
  const Ranks ranks(2, GetParam());
  ranks.run([](int rank, tutti_comm* comm) {
    tutti_queue* queue = nullptr;
    ASSERT_EQ(tutti_queue_create(&queue), TUTTI_SUCCESS) << last_error();
    std::vector<std::vector<unsigned char>> sent(count);
    for (std::size_t i = 0; i < count; ++i) {
      sent[i].assign(bytes, static_cast<unsigned char>(i));
      ASSERT_EQ(tutti_send(sent[i].data(), bytes, TUTTI_UINT8, 1 - rank, comm, {TUTTI_STREAM_QUEUE, queue}, nullptr),
                TUTTI_SUCCESS);
    }
    ::usleep(20'000);
    std::vector<unsigned char> got(bytes);
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_EQ(tutti_recv(got.data(), bytes, TUTTI_UINT8, 1 - rank, comm, {}, nullptr), TUTTI_SUCCESS) << last_error();
      ASSERT_TRUE(got == sent[i]) << i;
    }
    EXPECT_EQ(tutti_queue_wait(queue, 0), TUTTI_SUCCESS) << last_error();
    EXPECT_EQ(tutti_queue_destroy(queue), TUTTI_SUCCESS);
  });
}

tutti_status post(bool sends, int& value, std::uint64_t tag, tutti_comm* comm, int peer) {
  return post(sends, &value, peer, tag, comm);
}

// Messages that are there when they are asked for, in another order than they came: with links that are warm they are taken
// where they lie, if nothing is in the way.
TEST_P(TransfersOver, ThatAreThereAlreadyAreTakenByTagAndInOrder) {
  const Ranks ranks(2, GetParam());
  ranks.run([](int rank, tutti_comm* comm) {
    int warm = 0;  // links open while both are in transfers
    ASSERT_EQ(post(rank == 0, warm, 1, comm, 1 - rank), TUTTI_SUCCESS) << last_error();
    for (int round = 0; round < 20; ++round) {
      if (rank == 0) {
        for (int i = 0; i < 4; ++i) {
          int value = 10 * round + i;
          ASSERT_EQ(post(true, value, i == 1 ? 5 : 7, comm, 1), TUTTI_SUCCESS) << last_error();
        }
      }
      ASSERT_EQ(tutti_barrier(comm, {}, nullptr), TUTTI_SUCCESS) << last_error();
      if (rank == 0) continue;
      for (const int i : {1, 0, 2, 3}) {
        int value = -1;
        ASSERT_EQ(post(false, value, i == 1 ? 5 : 7, comm, round % 2 == 0 || i != 2 ? 0 : TUTTI_ANY_SOURCE), TUTTI_SUCCESS)
            << last_error();
        ASSERT_EQ(value, 10 * round + i);
      }
    }
  });
}

/// A message with that tag. Of 8 bytes or more each is another one.
std::vector<unsigned char> marked(std::uint64_t tag, std::size_t bytes) {
  std::vector<unsigned char> message(bytes);
  for (std::size_t i = 0; i < bytes; ++i) message[i] = static_cast<unsigned char>((tag >> (i % 8 * 8)) + i / 8);
  return message;
}

/// Those that differ in one bit or a few, of which a message's header has no room for all.
std::vector<std::uint64_t> tags_of_every_kind() {
  std::vector<std::uint64_t> tags{0, 1, UINT64_MAX, UINT64_MAX - 1};
  for (const int bit : {2, 31, 32, 59, 60, 61, 62, 63}) {
    for (const std::uint64_t low : {0, 1, 3}) tags.push_back((std::uint64_t{1} << bit) + low);
  }
  return tags;
}

// A tag is all 64 bits of it, whatever way it travels: receives are posted in another order than the sends.
TEST_P(TransfersOver, AreToldApartByEveryBitOfTheirTags) {
  const Ranks ranks(2, GetParam());
  ranks.run([](int rank, tutti_comm* comm) {
    const std::vector<std::uint64_t> tags = tags_of_every_kind();
    for (const std::size_t bytes : {0, 8, 40, 1000, 20'000, 131'072, 300'001}) {
      std::vector<std::vector<unsigned char>> out;
      std::vector<std::vector<unsigned char>> in;
      for (const std::uint64_t tag : tags) {
        out.push_back(marked(tag, bytes));
        in.emplace_back(bytes + 1);
      }
      ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
      for (std::size_t i = 0; i < tags.size(); ++i) {
        const std::size_t j = tags.size() - 1 - i;
        tutti_call call = TUTTI_CALL_INIT;
        call.tag = tags[i];
        ASSERT_EQ(tutti_send(out[i].data(), bytes, TUTTI_UINT8, 1 - rank, comm, {}, &call), TUTTI_SUCCESS) << last_error();
        call.tag = tags[j];
        ASSERT_EQ(tutti_recv(in[j].data(), bytes, TUTTI_UINT8, 1 - rank, comm, {}, &call), TUTTI_SUCCESS) << last_error();
      }
      ASSERT_EQ(tutti_group_end(nullptr), TUTTI_SUCCESS) << last_error();
      for (std::size_t i = 0; i < tags.size(); ++i) {
        out[i].push_back(0);  // nothing is written behind
        ASSERT_TRUE(in[i] == out[i]) << bytes << " bytes with tag " << tags[i];
      }
    }
  });
}

/// One message each way between two ranks, in one call: what the other one marked arrives, and nothing is written behind.
void swap_marked(int rank, tutti_comm* comm, std::uint64_t tag, std::size_t bytes) {
  const std::vector<unsigned char> out = marked(tag + static_cast<std::uint64_t>(rank), bytes);
  std::vector<unsigned char> expected = marked(tag + static_cast<std::uint64_t>(1 - rank), bytes);
  expected.push_back(0);
  std::vector<unsigned char> in(bytes + 1);
  tutti_call call = TUTTI_CALL_INIT;
  call.tag = tag;
  ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
  ASSERT_EQ(tutti_send(out.data(), bytes, TUTTI_UINT8, 1 - rank, comm, {}, &call), TUTTI_SUCCESS) << last_error();
  ASSERT_EQ(tutti_recv(in.data(), bytes, TUTTI_UINT8, 1 - rank, comm, {}, &call), TUTTI_SUCCESS) << last_error();
  ASSERT_EQ(tutti_group_end(nullptr), TUTTI_SUCCESS) << last_error();
  ASSERT_TRUE(in == expected) << bytes << " bytes with tag " << tag;
}

// One message at a time, and the receive that waits for it, as most calls have it: that is another way than the above.
TEST_P(TransfersOver, HaveTagsOfEveryKindInCallsOfOneMessageEachWay) {
  const Ranks ranks(2, GetParam());
  ranks.run([](int rank, tutti_comm* comm) {
    for (const std::size_t bytes : {0, 8, 40, 1000, 20'000, 131'072, 300'001}) {
      for (const std::uint64_t tag : tags_of_every_kind()) ASSERT_NO_FATAL_FAILURE(swap_marked(rank, comm, tag, bytes));
    }
  });
}

// What just fits a slot, and does not where its tag goes with it.
TEST_P(TransfersOver, OfASlotsLengthHaveTagsOfEveryKind) {
  const Ranks ranks(2, GetParam());
  ranks.run([](int rank, tutti_comm* comm) {
    for (const std::size_t bytes : {262'111, 262'112, 262'113, 262'143, 262'144, 262'145}) {
      for (const std::uint64_t tag : {std::uint64_t{7}, (std::uint64_t{1} << 62) - 1, std::uint64_t{1} << 62, UINT64_MAX})
        ASSERT_NO_FATAL_FAILURE(swap_marked(rank, comm, tag, bytes));
    }
  });
}

// What was sent has arrived, whatever its sender does next; be it before the receiver has looked for it, or after.
TEST_P(TransfersOver, ArriveThoughTheirSenderLeavesAtOnce) {
  for (int round = 0; round < 12; ++round) {
    std::vector<tutti_comm*> comms(2);
    tutti_config config = TUTTI_CONFIG_INIT;
    config.transports = GetParam();
    ASSERT_EQ(tutti_comm_create_all(comms.data(), 2, &config), TUTTI_SUCCESS) << last_error();
    constexpr int messages = 5;
    std::thread sender([&] {
      if (round % 3 == 1) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      for (int i = 0; i < messages; ++i) {
        ASSERT_EQ(tutti_send(&i, 1, TUTTI_INT32, 1, comms[0], {}, nullptr), TUTTI_SUCCESS) << last_error();
      }
      EXPECT_EQ(tutti_comm_destroy(comms[0]), TUTTI_SUCCESS);
    });
    if (round % 3 == 2) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    for (int i = 0; i < messages; ++i) {
      int value = -1;
      EXPECT_EQ(tutti_recv(&value, 1, TUTTI_INT32, 0, comms[1], {}, nullptr), TUTTI_SUCCESS) << round << last_error();
      EXPECT_EQ(value, i);
    }
    int none = 0;
    EXPECT_EQ(tutti_recv(&none, 1, TUTTI_INT32, 0, comms[1], {}, nullptr), TUTTI_REMOTE_ERROR) << "and nothing else";
    sender.join();
    EXPECT_EQ(tutti_comm_destroy(comms[1]), TUTTI_SUCCESS);
  }
}

// A rank that has left in order is no matter to those that go on without it.
TEST_P(TransfersOver, GoOnWhenARankThatTheyDoNotNeedLeaves) {
  std::vector<tutti_comm*> comms(3);
  tutti_config config = TUTTI_CONFIG_INIT;
  config.transports = GetParam();
  ASSERT_EQ(tutti_comm_create_all(comms.data(), 3, &config), TUTTI_SUCCESS) << last_error();
  std::barrier<> left(2);
  std::thread leaver([&] {
    int value = 9;
    EXPECT_EQ(tutti_send(&value, 1, TUTTI_INT32, 0, comms[2], {}, nullptr), TUTTI_SUCCESS) << last_error();
    EXPECT_EQ(tutti_comm_destroy(comms[2]), TUTTI_SUCCESS);
  });
  std::thread sender([&] {
    left.arrive_and_wait();
    for (int i = 0; i < 100; ++i) {
      if (i % 20 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));  // longer than the other looks at once
      ASSERT_EQ(tutti_send(&i, 1, TUTTI_INT32, 0, comms[1], {}, nullptr), TUTTI_SUCCESS) << last_error();
    }
  });
  int value = 0;
  EXPECT_EQ(tutti_recv(&value, 1, TUTTI_INT32, 2, comms[0], {}, nullptr), TUTTI_SUCCESS) << last_error();
  leaver.join();
  left.arrive_and_wait();
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(tutti_recv(&value, 1, TUTTI_INT32, 1, comms[0], {}, nullptr), TUTTI_SUCCESS) << i << last_error();
    EXPECT_EQ(value, i);
    if (HasFailure()) break;
  }
  EXPECT_EQ(tutti_recv(&value, 1, TUTTI_INT32, 2, comms[0], {}, nullptr), TUTTI_REMOTE_ERROR) << "it is needed now";
  EXPECT_THAT(last_error(), testing::HasSubstr("left while others still needed it"));
  sender.join();
  for (const int rank : {0, 1}) EXPECT_EQ(tutti_comm_destroy(comms[rank]), TUTTI_SUCCESS);
}

// Messages of no bytes need memory where nobody has asked for them.
// A receive from any rank needs all of them, as long as it is under way.
TEST_P(TransfersOver, GoOnWhenARankLeavesWhoseReceiveFromAnyEndedBefore) {
  std::vector<tutti_comm*> comms(3);
  tutti_config config = TUTTI_CONFIG_INIT;
  config.transports = GetParam();
  ASSERT_EQ(tutti_comm_create_all(comms.data(), 3, &config), TUTTI_SUCCESS) << last_error();
  const auto send = [&](int rank) {
    EXPECT_EQ(tutti_send(&rank, 1, TUTTI_INT32, 0, comms[rank], {}, nullptr), TUTTI_SUCCESS) << last_error();
  };
  const auto receive = [&](int source) {
    int value = 0;
    EXPECT_EQ(tutti_recv(&value, 1, TUTTI_INT32, source, comms[0], {}, nullptr), TUTTI_SUCCESS) << last_error();
    return value;
  };
  std::thread opener([&] { send(1); });
  EXPECT_EQ(receive(1), 1);
  opener.join();
  std::thread leaver([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // longer than the other looks at once
    send(2);
  });
  EXPECT_EQ(receive(TUTTI_ANY_SOURCE), 2);
  leaver.join();
  EXPECT_EQ(tutti_comm_destroy(comms[2]), TUTTI_SUCCESS);
  std::thread sender([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(400));  // longer than a reason for a loss is looked for
    send(1);
  });
  EXPECT_EQ(receive(1), 1);
  sender.join();
  for (const int rank : {0, 1}) EXPECT_EQ(tutti_comm_destroy(comms[rank]), TUTTI_SUCCESS);
}

TEST_P(TransfersOver, WaitForTheReceiverHoweverShortTheyAre) {
  constexpr std::uint64_t most = 50'000;
  const Ranks ranks(2, GetParam());
  std::barrier<> sent(2);
  ranks.run([&](int rank, tutti_comm* comm) {
    if (rank == 0) {  // a receive that nothing matches keeps this rank taking what comes
      int none = 0;
      tutti_call call = TUTTI_CALL_INIT;
      call.tag = most;
      tutti_queue* queue = nullptr;
      ASSERT_EQ(tutti_queue_create(&queue), TUTTI_SUCCESS) << last_error();
      ASSERT_EQ(tutti_recv(&none, 1, TUTTI_INT32, 1, comm, {TUTTI_STREAM_QUEUE, queue}, &call), TUTTI_SUCCESS);
      sent.arrive_and_wait();
      EXPECT_EQ(tutti_queue_destroy(queue), TUTTI_SUCCESS);
      return;
    }
    std::uint64_t count = 0;
    tutti_call call = TUTTI_CALL_INIT;
    call.timeout_ns = 300'000'000;
    for (tutti_status status = TUTTI_SUCCESS; count < most && status == TUTTI_SUCCESS; ++count) {
      call.tag = count;
      status = tutti_send(nullptr, 0, TUTTI_INT32, 0, comm, {}, &call);
    }
    EXPECT_LT(count, most) << "a send waits for its receive at last";
    EXPECT_GT(count, 1000u) << "but not the first ones";
    sent.arrive_and_wait();
  });
}

// A peer that is there, and sends nothing, has not been lost.
TEST_P(TransfersOver, ThatNobodyAnswersMissTheirOwnDeadlineFirst) {
  std::vector<tutti_comm*> comms(2);
  tutti_config config = TUTTI_CONFIG_INIT;
  config.transports = GetParam();
  config.operation_timeout_ns = config.connect_timeout_ns = 2'500'000'000;
  ASSERT_EQ(tutti_comm_create_all(comms.data(), 2, &config), TUTTI_SUCCESS) << last_error();
  int value = 0;
  EXPECT_EQ(tutti_recv(&value, 1, TUTTI_INT32, 0, comms[1], {}, nullptr), TUTTI_TIMEOUT) << last_error();
  EXPECT_NE(std::string(last_error()).find("found no match"), std::string::npos) << last_error();
  for (tutti_comm* comm : comms) tutti_comm_destroy(comm);
}

// A receive that was posted before, by this thread or by another that has told it so, has the first message.
TEST_P(TransfersOver, DoNotOvertakeAReceiveThatWasPostedBefore) {
  const Ranks ranks(2, GetParam());
  ranks.run([](int rank, tutti_comm* comm) {
    tutti_queue* queue = nullptr;
    ASSERT_EQ(tutti_queue_create(&queue), TUTTI_SUCCESS) << last_error();
    for (int round = 0; round < 20; ++round) {
      int first = 10 * round;
      int second = 10 * round + 1;
      if (rank == 1) {
        first = second = -1;
        const auto begin = [&] {
          ASSERT_EQ(tutti_recv(&first, 1, TUTTI_INT32, 0, comm, {TUTTI_STREAM_QUEUE, queue}, nullptr), TUTTI_SUCCESS)
              << last_error();
        };
        if (round % 2 == 0) {
          begin();
        } else {
          std::thread(begin).join();
        }
      }
      ASSERT_EQ(tutti_barrier(comm, {}, nullptr), TUTTI_SUCCESS) << last_error();
      for (int* value : {&first, &second}) {
        if (rank == 1 && value == &first) continue;
        ASSERT_EQ(post(rank == 0, *value, 0, comm, 1 - rank), TUTTI_SUCCESS) << last_error();
      }
      if (rank == 0) continue;
      ASSERT_EQ(tutti_queue_wait(queue, 0), TUTTI_SUCCESS) << last_error();
      ASSERT_EQ(first, 10 * round);
      ASSERT_EQ(second, 10 * round + 1);
    }
    EXPECT_EQ(tutti_queue_destroy(queue), TUTTI_SUCCESS);
  });
}

// One receive of a group that cannot be done at once leaves those after it in their order: a long message, one of any rank,
// one of this rank's own.
TEST_P(TransfersOver, OfAGroupKeepTheirOrderWhereOneIsOfAnotherKind) {
  const Ranks ranks(2, GetParam());
  ranks.run([](int rank, tutti_comm* comm) {
    constexpr std::size_t most = 100'000;  // 400 kB: no message of one slot
    constexpr int count = 7;
    std::vector<std::vector<int>> out(count);
    std::vector<std::vector<int>> in(count);
    for (int round = 0; round < 4 * count; ++round) {
      const int odd = round % count;
      const int kind = round / count;
      ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
      for (int i = 0; i < count; ++i) {
        const bool self = i == odd && kind == 1;
        const std::size_t length = i == odd && kind == 0 ? most : 3;
        out[static_cast<std::size_t>(i)].assign(length, 100 * round + 10 * i + rank);
        in[static_cast<std::size_t>(i)].assign(length, -1);
        const int to = self ? rank : 1 - rank;
        const int from = i == odd && kind == 2 ? TUTTI_ANY_SOURCE : to;
        ASSERT_EQ(tutti_send(out[static_cast<std::size_t>(i)].data(), length, TUTTI_INT32, to, comm, {}, nullptr),
                  TUTTI_SUCCESS);
        ASSERT_EQ(tutti_recv(in[static_cast<std::size_t>(i)].data(), length, TUTTI_INT32, from, comm, {}, nullptr),
                  TUTTI_SUCCESS);
      }
      ASSERT_EQ(tutti_group_end(nullptr), TUTTI_SUCCESS) << last_error();
      for (int i = 0; i < count; ++i) {
        const auto& got = in[static_cast<std::size_t>(i)];
        const int source = i == odd && kind == 1 ? rank : 1 - rank;
        ASSERT_EQ(got, std::vector<int>(got.size(), 100 * round + 10 * i + source))
            << "round " << round << ", message " << i;
      }
    }
  });
}

// Short ones, so many that their receiver has to tell more than once what it has consumed.
TEST_P(TransfersOver, OfManyMegabytesInShortMessagesGoOn) {
  constexpr int count = 12'000;
  const Ranks ranks(2, GetParam());
  ranks.run([](int rank, tutti_comm* comm) {
    std::vector<int> block(256);
    for (int i = 0; i < count; ++i) {
      block.assign(block.size(), rank == 0 ? i : -1);
      ASSERT_EQ(rank == 0 ? tutti_send(block.data(), block.size(), TUTTI_INT32, 1, comm, {}, nullptr)
                          : tutti_recv(block.data(), block.size(), TUTTI_INT32, 0, comm, {}, nullptr),
                TUTTI_SUCCESS)
          << last_error();
      ASSERT_EQ(block, std::vector<int>(block.size(), i));
    }
  });
}

// Whoever finds another thread making progress leaves it to that one, and posts through the inbox.
TEST_P(TransfersOver, OfSeveralThreadsOfARankFindTheirOwn) {
  const Ranks ranks(2, GetParam());
  ranks.run([](int rank, tutti_comm* comm) {
    const auto exchange = [rank, comm](int thread) {
      tutti_call call = TUTTI_CALL_INIT;
      call.tag = static_cast<std::uint64_t>(thread);
      for (std::size_t i = 0; i < 200; ++i) {
        const std::size_t count = lengths[i % lengths.size()] / 4;
        std::vector<int> out(count, 1000 * thread + rank);
        std::vector<int> in(count);
        const bool grouped = i % 2 == 0;
        if (grouped) {
          ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
        }
        for (const bool sends : {rank == 0, rank != 0}) {
          ASSERT_EQ(sends ? tutti_send(out.data(), count, TUTTI_INT32, 1 - rank, comm, {}, &call)
                          : tutti_recv(in.data(), count, TUTTI_INT32, 1 - rank, comm, {}, &call),
                    TUTTI_SUCCESS)
              << last_error();
        }
        if (grouped) {
          ASSERT_EQ(tutti_group_end(nullptr), TUTTI_SUCCESS) << last_error();
        }
        ASSERT_EQ(in, std::vector<int>(count, 1000 * thread + 1 - rank)) << i;
      }
    };
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) threads.emplace_back(exchange, t);
    for (std::thread& thread : threads) thread.join();
  });
}

/// Its time counts from the first look at it, in whosever thread that is.
TEST_P(TransfersOver, ABlockingReceiveWithoutAMatchEndsAtItsDeadline) {
  for (const bool beside_another : {false, true}) {
    const Ranks ranks(2, GetParam());
    ranks.run([beside_another](int rank, tutti_comm* comm) {
      if (rank == 1) return;
      std::thread other;
      if (beside_another) {
        other = std::thread([comm] {
          int x = 0;
          EXPECT_NE(tutti_recv(&x, 1, TUTTI_INT32, 1, comm, {}, nullptr), TUTTI_SUCCESS) << "it ends with the communicator";
        });
        ::usleep(5000);
      }
      int x = 0;
      tutti_call call = TUTTI_CALL_INIT;
      call.tag = 7;
      call.timeout_ns = 50'000'000;
      EXPECT_EQ(tutti_recv(&x, 1, TUTTI_INT32, 1, comm, {}, &call), TUTTI_TIMEOUT);
      EXPECT_THAT(last_error(), testing::AllOf(testing::HasSubstr("from rank 1 with tag 7"), testing::HasSubstr("50 ms")));
      if (other.joinable()) other.join();
    });
  }
}

// Each is sent or refused, whenever finalize comes.
TEST_P(TransfersOver, ShortSendsBesideFinalizeAreSentOrRefused) {
  constexpr int most = 3;  // as many as need nobody who receives
  for (int round = 0; round < 100; ++round) {
    const Ranks ranks(2, GetParam());
    ranks.run([&, round](int rank, tutti_comm* comm) {
      int other = 0;
      tutti_group_start();  // so that the links are open
      EXPECT_EQ(tutti_send(&rank, 1, TUTTI_INT32, 1 - rank, comm, {}, nullptr), TUTTI_SUCCESS);
      EXPECT_EQ(tutti_recv(&other, 1, TUTTI_INT32, 1 - rank, comm, {}, nullptr), TUTTI_SUCCESS);
      EXPECT_EQ(tutti_group_end(nullptr), TUTTI_SUCCESS) << last_error();
      std::thread sender([rank, comm] {
        for (int i = 0; i < most; ++i) {
          const tutti_status status = tutti_send(&i, 1, TUTTI_INT32, 1 - rank, comm, {}, nullptr);
          EXPECT_TRUE(status == TUTTI_SUCCESS || status == TUTTI_INVALID_USAGE) << last_error();
        }
      });
      if (round % 4 != 0) ::usleep(static_cast<useconds_t>(round));
      EXPECT_EQ(tutti_comm_finalize(comm), TUTTI_SUCCESS) << last_error();
      sender.join();
      EXPECT_EQ(tutti_send(&rank, 1, TUTTI_INT32, 1 - rank, comm, {}, nullptr), TUTTI_INVALID_USAGE);
    });
  }
}

// A receive that has just begun holds the engine for a quarter of a millisecond where ranks share cores, and counts itself
// as under way only then. Finalize ends well beside one that was refused alone; any other, which nobody answers, it waits
// for.
TEST_P(TransfersOver, AReceiveThatHasJustBegunIsNotLeftBehindByFinalize) {
  for (int round = 0; round < 30; ++round) {
    tutti_config config = TUTTI_CONFIG_INIT;
    config.transports = GetParam();
    config.spin = -1;
    config.operation_timeout_ns = 50'000'000;
    std::array<tutti_comm*, 2> comms{};
    ASSERT_EQ(tutti_comm_create_all(comms.data(), 2, &config), TUTTI_SUCCESS) << last_error();
    std::atomic<int> ready{0};
    std::array<tutti_status, 2> finalized{};
    tutti_status received = TUTTI_SUCCESS;
    std::string why;
    const auto rank = [&](std::size_t r) {
      int x = 0;
      tutti_call patient = TUTTI_CALL_INIT;
      patient.timeout_ns = 30'000'000'000;  // the short limit is for what comes after
      tutti_group_start();                  // so that the links are open
      EXPECT_EQ(tutti_send(&x, 1, TUTTI_INT32, 1 - static_cast<int>(r), comms[r], {}, &patient), TUTTI_SUCCESS);
      EXPECT_EQ(tutti_recv(&x, 1, TUTTI_INT32, 1 - static_cast<int>(r), comms[r], {}, &patient), TUTTI_SUCCESS);
      EXPECT_EQ(tutti_group_end(nullptr), TUTTI_SUCCESS) << last_error();
      std::thread receives;
      if (r == 0) {
        receives = std::thread([&] {
          int y = 0;
          ++ready;
          received = tutti_recv(&y, 1, TUTTI_INT32, 1, comms[0], {}, nullptr);
          why = last_error();
        });
      }
      while (ready == 0) ::sched_yield();
      ::usleep(static_cast<useconds_t>(5 * round));
      finalized[r] = tutti_comm_finalize(comms[r]);
      if (receives.joinable()) receives.join();
    };
    std::thread other([&] { rank(1); });
    rank(0);
    other.join();
    EXPECT_NE(received, TUTTI_SUCCESS);
    if (finalized[0] == TUTTI_SUCCESS) {
      EXPECT_THAT(why, testing::HasSubstr("has been finalized")) << round;
    }
    for (tutti_comm* comm : comms) tutti_comm_destroy(comm);
  }
}

TEST_P(TransfersOver, ABlockingReceiveIsWaitedForByFinalize) {
  std::atomic<bool> waits = false;  // set by the hook, which is asked within the receive alone
  tutti_config config = TUTTI_CONFIG_INIT;
  config.transports = GetParam();
  config.operation_timeout_ns = 60'000'000'000;
  config.poll = [](void* seen) {
    static_cast<std::atomic<bool>*>(seen)->store(true);
    return 0;
  };
  config.poll_ctx = &waits;
  std::array<tutti_comm*, 2> comms{};
  ASSERT_EQ(tutti_comm_create_all(comms.data(), 2, &config), TUTTI_SUCCESS) << last_error();
  waits = false;
  int x = 0;
  std::thread receives(
      [&] { EXPECT_EQ(tutti_recv(&x, 1, TUTTI_INT32, 1, comms[0], {}, nullptr), TUTTI_SUCCESS) << last_error(); });
  for (int i = 0; i < 60'000 && !waits; ++i) ::usleep(1000);
  std::thread sends([&] {
    ::usleep(100'000);  // finalize has begun by then; if not, the test shows less
    int y = 42;
    EXPECT_EQ(tutti_send(&y, 1, TUTTI_INT32, 0, comms[1], {}, nullptr), TUTTI_SUCCESS) << last_error();
    EXPECT_EQ(tutti_comm_finalize(comms[1]), TUTTI_SUCCESS) << last_error();
  });
  EXPECT_EQ(tutti_comm_finalize(comms[0]), TUTTI_SUCCESS) << last_error();
  receives.join();
  sends.join();
  EXPECT_EQ(x, 42);
  for (tutti_comm* comm : comms) tutti_comm_destroy(comm);
}

TEST(Transfers, AGroupOfReceivesAsksTheHookWhereRanksShareACore) {
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  int cpu = 0;
  while (!CPU_ISSET(cpu, &before)) ++cpu;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  std::atomic<int> asked = 0;
  tutti_config config = TUTTI_CONFIG_INIT;
  config.transports = "shm";
  config.operation_timeout_ns = 60'000'000'000;
  config.poll = [](void* counter) {
    ++*static_cast<std::atomic<int>*>(counter);
    return 0;
  };
  config.poll_ctx = &asked;
  std::array<tutti_comm*, 2> comms{};
  ASSERT_EQ(tutti_comm_create_all(comms.data(), 2, &config), TUTTI_SUCCESS) << last_error();
  constexpr int most = 60;
  // A millisecond is promised; four leave room for the other rank. Where other programs have the core for long, it is tried
  // again: a rank that asks nobody while messages come does so in every round.
  bool prompt = false;
  for (int round = 0; round < 50 && !prompt; ++round) {
    std::thread sends([&] {
      for (int i = -1; i < most; ++i) {  // the first opens the links
        if (i >= 0) ::usleep(150);
        EXPECT_EQ(tutti_send(&i, 1, TUTTI_INT32, 0, comms[1], {}, nullptr), TUTTI_SUCCESS) << last_error();
      }
    });
    int first = 0;
    EXPECT_EQ(tutti_recv(&first, 1, TUTTI_INT32, 1, comms[0], {}, nullptr), TUTTI_SUCCESS) << last_error();
    std::array<int, most> received{};
    asked = 0;
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(tutti_group_start(), TUTTI_SUCCESS);
    for (int& x : received) EXPECT_EQ(tutti_recv(&x, 1, TUTTI_INT32, 1, comms[0], {}, nullptr), TUTTI_SUCCESS);
    EXPECT_EQ(tutti_group_end(nullptr), TUTTI_SUCCESS) << last_error();
    prompt = asked >= (std::chrono::steady_clock::now() - begin) / std::chrono::milliseconds(4);
    sends.join();
    for (int i = 0; i < most; ++i) EXPECT_EQ(received[static_cast<std::size_t>(i)], i);
  }
  EXPECT_TRUE(prompt) << "the hook was asked " << asked << " times in the last round";
  for (tutti_comm* comm : comms) tutti_comm_destroy(comm);
  EXPECT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
}

/// What rank 1 is sent before rank 0 goes into a barrier, where it makes no progress for transfers; 0 where all is well.
int send_and_leave(std::size_t count, std::size_t bytes, const char* transport) {
  const Ranks ranks(2, transport, 10'000'000'000);
  std::atomic<int> failures{0};
  ranks.run([&](int rank, tutti_comm* comm) {
    std::vector<char> data(bytes);
    tutti_status status = tutti_barrier(comm, {}, nullptr);
    if (rank == 1) ::usleep(50'000);
    for (std::size_t i = 0; i < count && status == TUTTI_SUCCESS; ++i) {
      status = rank == 0 ? tutti_send(data.data(), bytes, TUTTI_INT8, 1, comm, {}, nullptr)
                         : tutti_recv(data.data(), bytes, TUTTI_INT8, 0, comm, {}, nullptr);
    }
    if (status == TUTTI_SUCCESS) status = tutti_barrier(comm, {}, nullptr);
    if (status != TUTTI_SUCCESS) ++failures;
  });
  return failures;
}

/// Makes a network of this process's own, whose packets are Ethernet's: the system takes less at once than of a loopback.
bool enter_small_packets() {
  const std::string uid = std::to_string(::geteuid());
  if (::unshare(CLONE_NEWNET) != 0) {
    if (::unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return false;
    std::ofstream("/proc/self/uid_map") << "0 " + uid + " 1";  // so that programs run from here may shape it
  }
  const int socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  request.ifr_mtu = 1500;
  bool done = ::ioctl(socket, SIOCSIFMTU, &request) == 0;
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  done = done && ::ioctl(socket, SIOCSIFFLAGS, &request) == 0;
  ::close(socket);
  return done;
}

TEST_P(TransfersOver, ASendThatHasEndedNeedsItsRankNoMore) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (!enter_small_packets()) ::_exit(99);
    ::_exit(send_and_leave(1, 90'000, GetParam()) + send_and_leave(1, 131'072, GetParam()) +
            send_and_leave(1, 262'144, GetParam()) + send_and_leave(8, 16'384, GetParam()));
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << status;
  if (WEXITSTATUS(status) == 99) GTEST_SKIP() << "this process may make no network namespace";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

/// Short sends that end while a long one, on a queue, keeps the link from ever being empty; negative where something fails.
int short_sends_beside_a_long_one() {
  constexpr std::size_t bytes = 32 << 20;
  constexpr int most = 50;
  const Ranks ranks(2, "tcp", 60'000'000'000);
  std::atomic<int> ended{0};
  std::atomic<bool> failed{false};
  ranks.run([&](int rank, tutti_comm* comm) {
    std::vector<char> data(bytes);
    tutti_queue* queue = nullptr;
    tutti_queue_create(&queue);
    tutti_work* work = nullptr;
    tutti_call call = TUTTI_CALL_INIT;
    call.work = &work;
    tutti_status status = rank == 0
                              ? tutti_send(data.data(), bytes, TUTTI_INT8, 1, comm, {TUTTI_STREAM_QUEUE, queue}, &call)
                              : tutti_recv(data.data(), bytes, TUTTI_INT8, 0, comm, {TUTTI_STREAM_QUEUE, queue}, &call);
    call = TUTTI_CALL_INIT;
    call.tag = 1;
    char x = 0;
    for (int i = 0; i < most && status == TUTTI_SUCCESS; ++i) {
      status =
          rank == 0 ? tutti_send(&x, 1, TUTTI_INT8, 1, comm, {}, &call) : tutti_recv(&x, 1, TUTTI_INT8, 0, comm, {}, &call);
      if (rank == 0 && tutti_work_test(work) == TUTTI_IN_PROGRESS) ++ended;
    }
    if (status != TUTTI_SUCCESS || tutti_work_wait(work, 0) != TUTTI_SUCCESS) failed = true;
    tutti_work_release(work);
    tutti_queue_destroy(queue);
  });
  return failed ? -1 : ended.load();
}

TEST(Transfers, AShortSendOverTcpEndsBesideALongOne) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (!enter_small_packets()) ::_exit(99);
    // Less room in the kernel than in the link, and a network slower than memory.
    std::ofstream("/proc/sys/net/ipv4/tcp_wmem") << "4096 16384 65536";
    if (std::system("tc qdisc add dev lo root tbf rate 1gbit burst 64kb latency 50ms") != 0) ::_exit(99);
    ::_exit(short_sends_beside_a_long_one());
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << status;
  if (WEXITSTATUS(status) == 99) GTEST_SKIP() << "this process may make and shape no network namespace";
  std::printf("%d short sends ended meanwhile\n", WEXITSTATUS(status));
  EXPECT_GT(WEXITSTATUS(status), 2);
  EXPECT_LE(WEXITSTATUS(status), 50);
}

/// A hook must not throw; where it does, nothing may be left of the transfer it interrupted.
TEST(Transfers, AWaitThatItsHookBreaksOutOfLeavesNothingBehind) {
  struct Caller {
    bool throws = false;
    static int poll(void* self) {
      if (static_cast<Caller*>(self)->throws) throw std::runtime_error("a hook that throws");
      return 0;
    }
  } caller;
  tutti_config config = TUTTI_CONFIG_INIT;
  config.poll = &Caller::poll;
  config.poll_ctx = &caller;
  config.operation_timeout_ns = 10'000'000'000;
  std::array<tutti_comm*, 2> comms{};
  ASSERT_EQ(tutti_comm_create_all(comms.data(), 2, &config), TUTTI_SUCCESS) << last_error();
  int x = 0;
  caller.throws = true;
  EXPECT_NE(tutti_recv(&x, 1, TUTTI_INT32, 1, comms[0], {}, nullptr), TUTTI_SUCCESS);
  caller.throws = false;
  EXPECT_NE(tutti_recv(&x, 1, TUTTI_INT32, 1, comms[0], {}, nullptr), TUTTI_SUCCESS) << "the communicator has failed";
  tutti_status status = TUTTI_SUCCESS;
  for (int i = 0; i < 10'000 && status == TUTTI_SUCCESS; ++i, ::usleep(1000)) {
    status = tutti_send(&x, 1, TUTTI_INT32, 0, comms[1], {}, nullptr);
  }
  EXPECT_NE(status, TUTTI_SUCCESS) << "and its peer heard of it";
  for (tutti_comm* comm : comms) tutti_comm_destroy(comm);
}

/// How a receive may be posted.
enum class Way { alone, in_a_group, from_any_source, on_a_queue, after_the_message };

tutti_status receive_by(Way way, void* memory, std::size_t count, tutti_type type, int peer, tutti_comm* comm) {
  const int source = way == Way::from_any_source ? TUTTI_ANY_SOURCE : peer;
  if (way == Way::after_the_message) ::usleep(20'000);
  if (way == Way::in_a_group) {
    EXPECT_EQ(tutti_group_start(), TUTTI_SUCCESS);
    EXPECT_EQ(tutti_recv(memory, count, type, source, comm, {}, nullptr), TUTTI_SUCCESS) << last_error();
    return tutti_group_end(nullptr);
  }
  if (way != Way::on_a_queue) return tutti_recv(memory, count, type, source, comm, {}, nullptr);
  tutti_queue* queue = nullptr;
  EXPECT_EQ(tutti_queue_create(&queue), TUTTI_SUCCESS) << last_error();
  EXPECT_EQ(tutti_recv(memory, count, type, source, comm, {TUTTI_STREAM_QUEUE, queue}, nullptr), TUTTI_SUCCESS);
  const tutti_status status = tutti_queue_wait(queue, 0);
  EXPECT_EQ(tutti_queue_destroy(queue), TUTTI_SUCCESS);
  return status;
}

void expect_partial_element_refused(const char* transport, Way way, std::size_t bytes) {
  const Ranks ranks(2, transport);
  ranks.run([=](int rank, tutti_comm* comm) {
    if (rank == 1) {
      const std::vector<unsigned char> out(bytes, 1);
      const tutti_status status = tutti_send(out.data(), bytes, TUTTI_UINT8, 0, comm, {}, nullptr);
      EXPECT_TRUE(status == TUTTI_SUCCESS || status == TUTTI_MISMATCH) << last_error();
      EXPECT_EQ(tutti_barrier(comm, {}, nullptr), TUTTI_MISMATCH) << "the sender's next call, at the latest";
      return;
    }
    std::vector<int> in(bytes / 4 + 4, -1);
    EXPECT_EQ(receive_by(way, in.data(), in.size(), TUTTI_INT32, 1, comm), TUTTI_MISMATCH);
    EXPECT_EQ(in, std::vector<int>(in.size(), -1)) << "no byte of it is put into the receiver's memory";
    EXPECT_EQ(tutti_barrier(comm, {}, nullptr), TUTTI_MISMATCH);
    const std::string error = error_of(comm).message;
    EXPECT_THAT(error, testing::HasSubstr(std::to_string(bytes) + " bytes of uint8"));
    EXPECT_THAT(error, testing::HasSubstr(std::to_string(in.size() * 4) + " bytes of int32"));
  });
}

TEST_P(TransfersOver, ThatEndWithinAnElementAreMismatchesHoweverTheyAreReceived) {
  for (const Way way : {Way::alone, Way::in_a_group, Way::from_any_source, Way::on_a_queue, Way::after_the_message}) {
    for (const std::size_t bytes : {7u, 1001u, 1'000'003u}) {
      SCOPED_TRACE(testing::Message() << "way " << static_cast<int>(way) << ", " << bytes << " bytes");
      expect_partial_element_refused(GetParam(), way, bytes);
    }
  }
}

TEST(Transfers, ToOneselfThatEndWithinAnElementAreMismatches) {
  for (const bool receives_first : {true, false}) {
    const Ranks ranks(1);
    const std::array<unsigned char, 7> out{};
    std::array<int, 4> in{-1, -1, -1, -1};
    ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
    for (const bool receives : {receives_first, !receives_first}) {
      ASSERT_EQ(receives ? tutti_recv(in.data(), in.size(), TUTTI_INT32, 0, ranks[0], {}, nullptr)
                         : tutti_send(out.data(), out.size(), TUTTI_UINT8, 0, ranks[0], {}, nullptr),
                TUTTI_SUCCESS);
    }
    EXPECT_EQ(tutti_group_end(nullptr), TUTTI_MISMATCH);
    EXPECT_THAT(in, testing::Each(-1));
    EXPECT_THAT(last_error(), testing::HasSubstr("7 bytes of uint8"));
    EXPECT_THAT(last_error(), testing::HasSubstr("16 bytes of int32"));
  }
}

TEST_P(TransfersOver, OfWholeElementsMayBeOfAnotherType) {
  const Ranks ranks(2, GetParam());
  ranks.run([](int rank, tutti_comm* comm) {
    const std::array<std::uint64_t, 2> out{1, 2};
    std::array<int, 8> in{};
    tutti_work* work = nullptr;
    tutti_call call = TUTTI_CALL_INIT;
    call.work = &work;
    if (rank == 0) {
      EXPECT_EQ(tutti_send(out.data(), out.size(), TUTTI_UINT64, 1, comm, {}, nullptr), TUTTI_SUCCESS) << last_error();
      return;
    }
    EXPECT_EQ(tutti_recv(in.data(), in.size(), TUTTI_INT32, 0, comm, {}, &call), TUTTI_SUCCESS) << last_error();
    tutti_work_details info{};
    info.size = sizeof info;
    EXPECT_EQ(tutti_work_info(work, &info), TUTTI_SUCCESS);
    EXPECT_EQ(info.received_count, 4u) << "elements of the receiver's type";
    tutti_work_release(work);
  });
}

INSTANTIATE_TEST_SUITE_P(Transports, TransfersOver, testing::Values("shm", "tcp"));

}  // namespace
}  // namespace tutti::test
