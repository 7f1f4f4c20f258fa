// Whether declarations_compared.cpp was compiled: it compares src/cuda/driver_types.h with cuda.h, where that is installed.
#include <gtest/gtest.h>

namespace tutti::cuda {
namespace {

TEST(Declarations, OfTheDriverAreThoseOfCudaH) {
  if (TUTTI_CUDA_HEADERS == 0) GTEST_SKIP() << "this machine has no cuda.h";
  SUCCEED() << "they were compared as they were compiled";
}

}  // namespace
}  // namespace tutti::cuda
