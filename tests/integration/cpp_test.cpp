// The C++ face: what it throws.
#include <gtest/gtest.h>

#include "include/tutti/tutti.hpp"
#include "tests/support/ranks.h"

namespace tutti::test {
namespace {

TEST(CppFace, ThrowsTheSentenceWithItsRemedyAndItsStatus) {
  try {
    const Communicator comm("carrier://pigeon");
    FAIL() << "it was created";
  } catch (const Failure& failure) {
    tutti_error error{};
    error.size = sizeof error;
    ASSERT_EQ(tutti_error_get(nullptr, &error), TUTTI_SUCCESS);
    EXPECT_STREQ(failure.what(), error.message);
    EXPECT_EQ(failure.remedy(), error.remedy);
    EXPECT_EQ(failure.status(), TUTTI_INVALID_ARGUMENT);
  }
}

}  // namespace
}  // namespace tutti::test
