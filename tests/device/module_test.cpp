// The file of kernels for GPUs that this build made, looked at without one. It is data that needs nothing, with a kernel
// for each call that the library can be asked for. Usage: device_module_test FILE
#include <dlfcn.h>
#include <elf.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <link.h>

#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "include/tutti/tutti.h"
#include "src/cuda/kernel_module.h"
#include "src/executors/cuda/kernel_names.h"
#include "src/executors/cuda/launch.h"
#include "src/tables/collectives.h"
#include "src/tables/element_types.h"
#include "src/tables/operators.h"

namespace tutti {
namespace {

const char* file = nullptr;

class KernelFile : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(file, nullptr);
    library_ = ::dlopen(file, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library_, nullptr) << ::dlerror();
    module_ = static_cast<const cuda::KernelModule*>(::dlsym(library_, cuda::kKernelModuleSymbol));
    ASSERT_NE(module_, nullptr);
  }

  void* library_ = nullptr;
  const cuda::KernelModule* module_ = nullptr;
};

TEST_F(KernelFile, NeedsNoOtherFile) {
  const link_map* map = nullptr;
  ASSERT_EQ(::dlinfo(library_, RTLD_DI_LINKMAP, &map), 0);
  for (const ElfW(Dyn)* entry = map->l_ld; entry->d_tag != DT_NULL; ++entry) EXPECT_NE(entry->d_tag, DT_NEEDED);
}

TEST_F(KernelFile, IsOfThisLibrary) {
  EXPECT_EQ(module_->abi, cuda::kKernelModuleAbi);
  EXPECT_EQ(module_->version, fmt::format("{}.{}.{}", TUTTI_VERSION_MAJOR, TUTTI_VERSION_MINOR, TUTTI_VERSION_PATCH));
  ASSERT_GT(module_->image_bytes, 1000u);
  // One page behind the last byte would be somebody else's: the whole image can be read.
  const auto* const image = static_cast<const volatile unsigned char*>(module_->image);
  unsigned sum = 0;
  for (std::uint64_t at = 0; at < module_->image_bytes; ++at) sum += image[at];
  EXPECT_NE(sum, 0u);
}

TEST_F(KernelFile, HasOneKernelForWhateverAVerbTakes) {
  std::set<std::string> wanted;
  for (const CollectiveRow& collective : collectives) {
    for (const ElementTypeInfo& type : element_types) {
      for (const OperatorInfo& op : operators) {
        if (combines(collective.collective) && !applies_to(op.op, type.type)) continue;
        Problem problem;
        problem.collective = collective.collective;
        problem.type = type.type;
        problem.op = op.op;
        wanted.insert(kernel_name(problem));
        problem.pre_mul = reduces(collective.collective) && op.op == TUTTI_SUM && type.kind != ElementKind::boolean;
        wanted.insert(kernel_name(problem));
      }
    }
  }
  for (const std::string& name : wanted) {
    const cuda::KernelName* const kernel = cuda::find_kernel(*module_, name);
    ASSERT_NE(kernel, nullptr) << name;
    EXPECT_EQ(kernel->name, name);
    EXPECT_EQ(kernel->parameter_bytes, sizeof(Launch)) << name;
    EXPECT_LE(kernel->parameter_bytes, 4096u) << "what a launch may pass";
    EXPECT_EQ(kernel->layout, launch_layout()) << name;
  }
  EXPECT_EQ(module_->count, wanted.size()) << "kernels that nobody can ask for";
}

TEST_F(KernelFile, NamesEachSymbolOnce) {
  std::set<std::string> symbols;
  for (std::uint32_t k = 0; k < module_->count; ++k) symbols.insert(module_->kernels[k].symbol);
  EXPECT_EQ(symbols.size(), module_->count);
  // Text can be looked into, a compressed fat binary cannot; a real driver is asked by scripts/gpu-check.
  const std::string_view image(static_cast<const char*>(module_->image), module_->image_bytes);
  if (image.find(".version") == std::string_view::npos) GTEST_SKIP() << "the image is no PTX";
  for (const std::string& symbol : symbols) {
    EXPECT_NE(image.find(".entry " + symbol + "("), std::string_view::npos) << symbol;
  }
}

}  // namespace
}  // namespace tutti

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (argc == 2) tutti::file = argv[1];
  return RUN_ALL_TESTS();
}
