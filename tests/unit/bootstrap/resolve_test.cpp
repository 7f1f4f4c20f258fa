// Names of hosts: whatever the resolver does, the caller's patience counts.
#include "src/bootstrap/resolve.h"

#include <arpa/inet.h>
#include <netdb.h>

#include <future>

#include "tests/support/world.h"

namespace tutti::test {
namespace {

const HostPort kSomewhere{"somewhere.example", 4242};

SocketAddress here(std::uint16_t port) { return SocketAddress::v4(std::array<unsigned char, 4>{127, 0, 0, 1}, port); }

/// A resolver that does not answer as long as this lives.
class Stuck {
 public:
  Resolver resolver() const {
    return [over = over_](const HostPort&) {
      over.wait();
      return Lookup{EAI_AGAIN, 0, {}};
    };
  }
  ~Stuck() { end_.set_value(); }

 private:
  std::promise<void> end_;
  std::shared_future<void> over_ = end_.get_future();
};

/// Answers with `errors` in turn, the last of them for good; 0: an address.
class Answers {
 public:
  explicit Answers(std::vector<int> errors) : errors_(std::move(errors)) {}
  Resolver resolver() const {
    return [errors = errors_, asked = asked_](const HostPort& place) {
      const int error = errors[std::min(static_cast<std::size_t>((*asked)++), errors.size() - 1)];
      return error == 0 ? Lookup{0, 0, {here(place.port)}} : Lookup{error, EMFILE, {}};
    };
  }
  int asked() const { return *asked_; }

 private:
  std::vector<int> errors_;
  std::shared_ptr<std::atomic<int>> asked_ = std::make_shared<std::atomic<int>>(0);
};

TEST(Resolve, ANumberNeedsNoResolver) {
  const auto never = [](const HostPort&) -> Lookup { throw std::runtime_error("asked"); };
  const auto result = resolve({"10.0.0.1", 80}, patience_of(20), never);
  ASSERT_TRUE(result.ok()) << result.status().text();
  EXPECT_EQ(result->front().text(), "10.0.0.1:80");
}

TEST(Resolve, AResolverThatDoesNotAnswerIsWaitedForUntilTheDeadline) {
  const Stuck stuck;
  const auto result = resolve(kSomewhere, patience_of(0.2), stuck.resolver());
  EXPECT_EQ(result.status().code(), TUTTI_TIMEOUT);
  EXPECT_EQ(result.status().error().limit_ns, 200'000'000u);
  EXPECT_THAT(result.status().text(), HasSubstr("\"somewhere.example\" was not found within 200 ms"));
  EXPECT_THAT(result.status().text(), HasSubstr("did not answer"));
}

TEST(Resolve, TheHookIsAskedMeanwhileAndCanEndTheWait) {
  const Stuck stuck;
  WaitLimits wait_limits = patience_of(600);
  int calls = 0;
  wait_limits.hook = {[](void* ctx) { return ++*static_cast<int*>(ctx) == 50 ? 1 : 0; }, &calls};
  EXPECT_EQ(resolve(kSomewhere, wait_limits, stuck.resolver()).status().code(), TUTTI_ABORTED);
  EXPECT_EQ(calls, 50);
}

TEST(Resolve, AnAbortEndsTheWait) {
  const Stuck stuck;
  std::atomic<bool> interrupted{true};
  WaitLimits wait_limits = patience_of(600);
  wait_limits.interrupted = &interrupted;
  EXPECT_EQ(resolve(kSomewhere, wait_limits, stuck.resolver()).status().code(), TUTTI_ABORTED);
}

TEST(Resolve, WhatTheResolverCannotTellNowIsAskedAgain) {
  const Answers late({EAI_AGAIN, EAI_AGAIN, 0});
  const auto result = resolve(kSomewhere, patience_of(60), late.resolver());
  ASSERT_TRUE(result.ok()) << result.status().text();
  EXPECT_EQ(result->front(), here(4242));
  EXPECT_EQ(late.asked(), 3);
}

TEST(Resolve, UntilTheDeadlineWithTheResolversReason) {
  const Answers never({EAI_AGAIN});
  const auto result = resolve(kSomewhere, patience_of(0.5), never.resolver());
  EXPECT_EQ(result.status().code(), TUTTI_TIMEOUT);
  EXPECT_THAT(result.status().text(), HasSubstr(::gai_strerror(EAI_AGAIN)));
  EXPECT_GE(never.asked(), 2);
}

TEST(Resolve, AnUnknownHostIsToldAtOnceAndARefusalOfTheSystemAsOne) {
  const Answers unknown({EAI_NONAME});
  EXPECT_EQ(resolve(kSomewhere, patience_of(600), unknown.resolver()).status().code(), TUTTI_INVALID_ARGUMENT);
  EXPECT_EQ(unknown.asked(), 1);
  const Answers refused({EAI_SYSTEM});
  const auto result = resolve(kSomewhere, patience_of(600), refused.resolver());
  EXPECT_EQ(result.status().code(), TUTTI_SYSTEM_ERROR);
  EXPECT_EQ(result.status().error().system_error, EMFILE);
  EXPECT_THAT(result.status().text(), HasSubstr("Too many open files"));
}

TEST(Resolve, OneThatThrowsIsARefusal) {
  const auto broken = [](const HostPort&) -> Lookup { throw std::bad_alloc(); };
  EXPECT_EQ(resolve(kSomewhere, patience_of(600), broken).status().code(), TUTTI_SYSTEM_ERROR);
}

SocketAddress mapped(std::uint16_t port) {
  sockaddr_in6 in{};
  in.sin6_family = AF_INET6;
  in.sin6_port = htons(port);
  EXPECT_EQ(::inet_pton(AF_INET6, "::ffff:127.0.0.1", &in.sin6_addr), 1);
  return {reinterpret_cast<const sockaddr*>(&in), sizeof in};
}

/// Answers with these.
Resolver answer_of(std::vector<SocketAddress> addresses) {
  return [addresses](const HostPort&) { return Lookup{0, 0, addresses}; };
}

TEST(Resolve, WhatANameStandsForHasOneFormAndLeadsSomewhere) {
  const SocketAddress everybody = SocketAddress::v4(std::array<unsigned char, 4>{224, 0, 0, 1}, 4242);
  const auto result = resolve(kSomewhere, patience_of(20), answer_of({everybody, mapped(4242), here(4242)}));
  ASSERT_TRUE(result.ok()) << result.status().text();
  EXPECT_THAT(*result, testing::ElementsAre(here(4242)));
  const auto none = resolve(kSomewhere, patience_of(20), answer_of({everybody}));
  EXPECT_EQ(none.status().code(), TUTTI_INVALID_ARGUMENT);
  EXPECT_THAT(none.status().text(), HasSubstr("\"somewhere.example\" has no address that can be used here: 224.0.0.1"));
}

TEST(Resolve, ALinkLocalAddressOfANameIsTriedOnEachInterfaceThatHasSuch) {
  const std::array<unsigned char, 16> bytes = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  const SocketAddress scopeless = SocketAddress::v6(bytes, 4242);
  const auto result = resolve(kSomewhere, patience_of(20), answer_of({scopeless, here(4242)}));
  ASSERT_TRUE(result.ok()) << result.status().text();
  EXPECT_EQ(result->size(), 1 + with_scopes(scopeless).size());
  for (const SocketAddress& one : *result) EXPECT_TRUE(!one.link_local() || one.scope() != 0) << one.text();
}

TEST(Resolve, AHostIsThisMachineWhereAnyOfItsAddressesIs) {
  const SocketAddress elsewhere = SocketAddress::v4(std::array<unsigned char, 4>{192, 0, 2, 77}, 0);
  const std::uint16_t port = free_port();
  const auto results = join_all(2, [&](int, JoinRequest& request) {
    request.address = "tcp://Somewhere.example:" + std::to_string(port);
    request.resolver = [elsewhere](const HostPort& place) {
      Lookup answer{0, 0, {elsewhere, here(place.port)}};
      answer.addresses.front().set_port(place.port);
      return answer;
    };
  });
  for (const auto& result : results) EXPECT_TRUE(result.ok()) << result.status().text();
}

TEST(Resolve, IsPartOfACreationsPatience) {
  const Stuck stuck;
  JoinRequest request = request_of(1, 2, 0.2);
  request.address = "tcp://somewhere.example:4242";
  request.settings.secret = "s";
  request.resolver = stuck.resolver();
  const auto result = join(request);
  EXPECT_EQ(result.status().code(), TUTTI_TIMEOUT);
  EXPECT_THAT(result.status().text(), HasSubstr("somewhere.example"));
}

}  // namespace
}  // namespace tutti::test
