// Every verb with every type, operator and division of its blocks, as the library's tables list them, against an
// independent referee: tutti-perf's data.
//
// The quick test takes a sample by a seed, TEST_SEED. With TEST_WHOLE=1 every case is taken (docs/verification.md).
#include "tests/support/matrix.h"

#include <cstdlib>
#include <cstring>
#include <memory>

#include "tests/support/sanitizers.h"

namespace tutti::test {
namespace {

/// Of a world; calls take many times as long under the sanitizers.
constexpr std::size_t kQuickCases = under_tsan || under_asan ? 60 : 250;

struct World {
  int ranks;
  const char* transports;
};

std::vector<Case> cases_of(int ranks) {
  std::vector<Case> cases = all_cases(ranks);
  if (std::getenv("TEST_WHOLE") != nullptr) return cases;
  const char* const given = std::getenv("TEST_SEED");
  std::mt19937 random(given != nullptr ? static_cast<unsigned>(std::strtoul(given, nullptr, 10)) : 1);
  std::vector<Case> sample;
  for (std::size_t n = 0; n < kQuickCases; ++n) sample.push_back(cases[random() % cases.size()]);
  return sample;
}

/// Bytes with a guard behind them.
class Memory {
 public:
  Memory(std::size_t bytes, bool registered) : bytes_(bytes), plain_(registered ? 0 : bytes + kGuard) {
    if (registered) {
      EXPECT_EQ(tutti_memory_alloc(&memory_, bytes + kGuard), TUTTI_SUCCESS) << last_error();
    }
    std::memset(data(), std::to_integer<int>(kSentinel), bytes + kGuard);
  }
  ~Memory() { EXPECT_EQ(tutti_memory_free(memory_), TUTTI_SUCCESS); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  std::byte* data() { return memory_ != nullptr ? static_cast<std::byte*>(memory_) : plain_.data(); }
  bool is_intact() {
    return std::all_of(data() + bytes_, data() + bytes_ + kGuard, [](std::byte b) { return b == kSentinel; });
  }

 private:
  std::size_t bytes_;
  std::vector<std::byte> plain_;
  void* memory_ = nullptr;
};

/// Memory of the host, a piece for each block.
class HostMemory final : public BlockMemory {
 public:
  explicit HostMemory(bool registered) : registered_(registered) {}
  std::byte* take(std::size_t bytes) override {
    return pieces_.emplace_back(std::make_unique<Memory>(bytes, registered_))->data();
  }
  void write(void* to, const std::vector<std::byte>& bytes) override {
    std::copy(bytes.begin(), bytes.end(), static_cast<std::byte*>(to));
  }
  std::vector<std::byte> read(const void* from, std::size_t bytes) override {
    const auto* const at = static_cast<const std::byte*>(from);
    return {at, at + bytes};
  }
  bool is_intact() override {
    return std::ranges::all_of(pieces_, [](const auto& each) { return each->is_intact(); });
  }

 private:
  const bool registered_;
  std::vector<std::unique_ptr<Memory>> pieces_;
};

class Matrix : public testing::TestWithParam<World> {};

TEST_P(Matrix, IsRightByAnIndependentReferee) {
  const Ranks ranks(GetParam().ranks, GetParam().transports);
  const std::vector<Case> cases = cases_of(ranks.size());
  ranks.run([&](int rank, tutti_comm* comm) {
    for (const Case& each : cases) {
      HostMemory memory(each.registered);
      RankCase part(each, rank, ranks.size(), memory);
      ASSERT_EQ(part.call(comm), TUTTI_SUCCESS) << each.text() << ": " << last_error();
      ASSERT_NO_FATAL_FAILURE(part.check());
    }
  });
  std::printf("%zu calls\n", cases.size());
}

INSTANTIATE_TEST_SUITE_P(Worlds, Matrix,
                         testing::Values(World{1, "shm"}, World{2, "shm"}, World{2, "tcp"}, World{3, "shm"},
                                         World{3, "tcp"}, World{4, "shm"}, World{4, "tcp"}, World{5, "shm"},
                                         World{5, "tcp"}, World{7, "shm"}, World{7, "tcp"}, World{8, "shm"},
                                         World{8, "tcp"}),
                         [](const testing::TestParamInfo<World>& of) {
                           return std::to_string(of.param.ranks) + "Over" + of.param.transports;
                         });

}  // namespace
}  // namespace tutti::test
