// What is said of an address that is none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/bootstrap/rendezvous.h"
#include "tests/support/world.h"

namespace tutti::test {
namespace {

TEST(Address, AnIdThatIsNoneIsToldWhatIsWrongWithIt) {
  JoinRequest request = request_of(1, 2, 2);
  const std::pair<const char*, const char*> cases[] = {{"id:abc", "does not begin with \"tutti1:\""},
                                                       {"id:", "is empty"},
                                                       {"id:tutti1:abc", "has 10 characters instead of"},
                                                       {"tutti1:abc", "has 10 characters instead of"},
                                                       {"tutti", "no address at which ranks can meet"}};
  for (const auto& [address, why] : cases) {
    request.address = address;
    const auto result = join(request);
    EXPECT_EQ(result.status().code(), TUTTI_INVALID_ARGUMENT) << address;
    EXPECT_THAT(result.status().text(), HasSubstr(why)) << address;
  }
}

}  // namespace
}  // namespace tutti::test
