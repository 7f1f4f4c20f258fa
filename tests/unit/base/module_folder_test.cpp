#include "src/base/module_folder.h"

#include <gmock/gmock.h>

namespace tutti {
namespace {

TEST(ModuleFolder, LiesBesideTheCodeUnlessASettingSaysWhere) {
  EXPECT_EQ(module_folder("/some/where"), "/some/where");
  EXPECT_THAT(module_folder(""), testing::EndsWith("/tests/tutti"));
}

}  // namespace
}  // namespace tutti
