// A peer that is killed, in every state: the others learn it, with a sentence, and nothing is left behind.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "src/base/clock.h"
#include "tests/conformance/world.h"

namespace tutti::conformance {
namespace {

/// A process that is rank 1 of 2; created while this one has a single thread and no endpoint.
class Child {
 public:
  template <typename Body>
  explicit Child(Body body) {
    EXPECT_EQ(::pipe(down_), 0);
    EXPECT_EQ(::pipe(up_), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(down_[1]);
      ::close(up_[0]);
      body(*this);
      ::_exit(0);
    }
    ::close(down_[0]);
    ::close(up_[1]);
  }
  ~Child() {
    kill();
    ::close(pid_ == 0 ? down_[0] : down_[1]);
    ::close(pid_ == 0 ? up_[1] : up_[0]);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void kill() {
    if (killed_) return;
    killed_ = true;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  /// To the other process, from either.
  void send(const Bytes& bytes) {
    const std::size_t size = bytes.size();
    const int fd = pid_ == 0 ? up_[1] : down_[1];
    if (::write(fd, &size, sizeof size) != sizeof size || ::write(fd, bytes.data(), size) != static_cast<ssize_t>(size)) {
      std::abort();
    }
  }
  Bytes receive() {
    const int fd = pid_ == 0 ? down_[0] : up_[0];
    std::size_t size = 0;
    if (::read(fd, &size, sizeof size) != sizeof size) return {};
    Bytes bytes(size);
    for (std::size_t got = 0; got < size;) {
      const ssize_t n = ::read(fd, bytes.data() + got, size - got);
      if (n <= 0) return {};
      got += static_cast<std::size_t>(n);
    }
    return bytes;
  }

 private:
  int down_[2] = {-1, -1};
  int up_[2] = {-1, -1};
  pid_t pid_ = -1;
  bool killed_ = false;
};

/// How far the child goes before it says so and waits for its end.
enum Progress { kDescribed, kOpening, kOpened, kReserved, kCommitted, kViewing };

constexpr std::uint64_t kMessageBytes = 3000;

/// Both sides' links: 0 to 1 and 1 to 0 on channel 0.
struct Links {
  tutti_link* out;
  tutti_link* in;
};

Links open_both(TestEndpoint& endpoint, int peer, const Bytes& descriptor) {
  return {endpoint.open_sender(peer, descriptor, 0, 2, kMessageBytes),
          endpoint.open_receiver(peer, descriptor, 0, 2, kMessageBytes)};
}

bool is_open(const tutti_transport& t, const Links& links) {
  tutti_link_state state{};
  return t.link_state(links.out, &state) == TUTTI_LINK_OK && t.link_state(links.in, &state) == TUTTI_LINK_OK;
}

void live(const tutti_transport& t, Child& self, int how_far) {
  EndpointOptions options;
  options.rank = 1;
  TestEndpoint endpoint(&t, options);
  self.send(endpoint.descriptor());
  const Bytes parent = self.receive();
  const auto wait = [&](auto done) {
    const Deadline deadline = Deadline::in(30 * kSecond);
    while (!done() && !deadline.passed()) endpoint.progress();
  };
  if (how_far >= kOpening) {
    const Links links = open_both(endpoint, 0, parent);
    if (how_far >= kOpened) wait([&] { return is_open(t, links); });
    if (how_far >= kReserved) wait([&] { return room_of(t, links.out, kMessageBytes, fingerprint_of(0)) != nullptr; });
    if (how_far >= kCommitted) {
      fill(static_cast<unsigned char*>(room_of(t, links.out, kMessageBytes, fingerprint_of(0))), 0, kMessageBytes);
      (void)t.commit(links.out, kMessageBytes, fingerprint_of(0));
      wait([&] { return t.flushed(links.out) == TUTTI_LINK_OK; });
    }
    tutti_message message{};
    if (how_far >= kViewing) wait([&] { return t.view(links.in, &message) == TUTTI_LINK_OK; });
  }
  self.send({1});
  for (;;) ::pause();
}

bool reaches(const tutti_transport& t, TestEndpoint& endpoint, const Bytes& descriptor) {
  tutti_reach reach{};
  reach.size = sizeof reach;
  char why[256] = "";
  return t.reach(endpoint.get(), 1, descriptor.data(), descriptor.size(), &reach, why, sizeof why) == 1;
}

class Death : public Conformance {
 protected:
  void die_at(int how_far);
};

void Death::die_at(int how_far) {
  Child child([&](Child& self) { live(t(), self, how_far); });
  EndpointOptions options;
  options.connect_timeout_ns = 60 * kSecond;  // a death is not learnt by waiting for this
  TestEndpoint endpoint(&t(), options);
  const Bytes descriptor = child.receive();
  if (!reaches(t(), endpoint, descriptor)) GTEST_SKIP() << t().name << " does not reach other processes";
  const Links links = open_both(endpoint, 1, descriptor);
  child.send(endpoint.descriptor());
  const auto until = [&](auto done) {
    const Deadline deadline = Deadline::in(20 * kSecond);
    while (!deadline.passed()) {
      if (done()) return true;
      endpoint.progress();
    }
    return false;
  };
  if (how_far >= kOpened) {
    ASSERT_TRUE(until([&] { return is_open(t(), links); })) << failure_of(t(), links.out) << failure_of(t(), links.in);
    ASSERT_TRUE(until([&] { return try_send(t(), links.out, 0, kMessageBytes); }));
    ASSERT_TRUE(until([&] { return t().flushed(links.out) == TUTTI_LINK_OK; }));
  }
  ASSERT_EQ(child.receive().size(), 1u);
  child.kill();
  const std::uint64_t killed = now_ns();
  if (how_far >= kCommitted) {
    EXPECT_TRUE(until([&] { return try_receive(t(), links.in, 0, kMessageBytes); }))
        << "it was sent before the sender died";
  }
  EXPECT_TRUE(until([&] {
    return t().failure(links.out, nullptr, 0) == TUTTI_LINK_BROKEN &&
           t().failure(links.in, nullptr, 0) == TUTTI_LINK_BROKEN;
  }));
  EXPECT_LT(now_ns() - killed, 5 * kSecond) << "the promised time in which a death is reported";
  EXPECT_NE(failure_of(t(), links.out).find("rank 1"), std::string::npos) << failure_of(t(), links.out);
  EXPECT_NE(failure_of(t(), links.in).find("rank 1"), std::string::npos) << failure_of(t(), links.in);
  tutti_room room{};
  EXPECT_EQ(t().reserve(links.out, 10, 0, &room), TUTTI_LINK_BROKEN);
  EXPECT_LE(quiesce_and_close(t(), links.in), TUTTI_FENCED);
}

TEST_P(Death, BeforeItHasOpenedAnything) { die_at(kDescribed); }
TEST_P(Death, WhileItOpens) { die_at(kOpening); }
TEST_P(Death, WithOpenLinks) { die_at(kOpened); }
TEST_P(Death, BetweenReserveAndCommit) { die_at(kReserved); }
TEST_P(Death, WithMessagesUnderWay) { die_at(kCommitted); }
TEST_P(Death, WhileItLooksAtAMessage) { die_at(kViewing); }

}  // namespace

namespace {
INSTANTIATE_TEST_SUITE_P(Transports, Death, testing::ValuesIn(transports_under_test()),
                         [](const testing::TestParamInfo<const tutti_transport*>& transport) {
                           return std::string(transport.param->name);
                         });
}  // namespace
}  // namespace tutti::conformance
