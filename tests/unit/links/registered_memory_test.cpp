// Blocks of registered memory and the arenas that they share, against a model: no two blocks overlap, each is zero, and
// nothing is left of what was freed.
#include "src/links/registered_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/arenas.h"

namespace tutti::test {
namespace {

constexpr std::size_t page = 4096;
constexpr std::size_t megabyte = 1 << 20;

std::byte* allocated(std::size_t bytes) {
  const Result<void*> memory = RegisteredMemory::instance().allocate(bytes);
  EXPECT_TRUE(memory.ok()) << memory.status().text();
  return memory.ok() ? static_cast<std::byte*>(*memory) : nullptr;
}

void free_block(std::byte* block) {
  const Status status = RegisteredMemory::instance().free(block);
  EXPECT_TRUE(status.ok()) << status.text();
}

/// All of a small block; of a large one the beginning, the middle and the end.
template <typename Each>
void for_each_part(std::byte* block, std::size_t bytes, Each each) {
  const std::size_t part = bytes <= 16 * page ? bytes : page;
  each(block, part);
  each(block + (bytes - part) / 2, part);
  each(block + bytes - part, part);
}

bool is_zero(std::byte* block, std::size_t bytes) {
  bool zero = true;
  for_each_part(block, bytes, [&](const std::byte* from, std::size_t length) {
    zero = zero && std::all_of(from, from + length, [](std::byte b) { return b == std::byte{0}; });
  });
  return zero;
}

void soil(std::byte* block, std::size_t bytes) {
  for_each_part(block, bytes, [](std::byte* from, std::size_t length) { std::memset(from, 0x5a, length); });
}

/// What is allocated, by address.
class Model {
 public:
  explicit Model(std::uint32_t seed) : random_(seed) {}
  ~Model() {
    while (!blocks_.empty()) free_one();
  }
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  std::uint32_t random(std::uint32_t below) { return random_() % below; }
  std::size_t size() const { return blocks_.size(); }

  void allocate_one() {
    const std::size_t bytes = random_size();
    std::byte* const block = allocated(bytes);
    ASSERT_NE(block, nullptr);
    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(block) % page, 0u);
    const auto after = blocks_.lower_bound(block);
    ASSERT_TRUE(after == blocks_.end() || block + bytes <= after->first) << "it overlaps the block behind it";
    ASSERT_TRUE(after == blocks_.begin() || end_of(*std::prev(after)) <= block) << "it overlaps the block before it";
    ASSERT_TRUE(is_zero(block, bytes)) << bytes << " bytes";
    soil(block, bytes);
    blocks_.emplace(block, bytes);
  }
  void free_one() {
    auto which = blocks_.begin();
    std::advance(which, random(static_cast<std::uint32_t>(blocks_.size())));
    free_block(which->first);
    blocks_.erase(which);
  }

 private:
  static std::byte* end_of(const std::pair<std::byte* const, std::size_t>& block) { return block.first + block.second; }
  /// Mostly a few pages; now and then a few megabytes, or more than arenas share.
  std::size_t random_size() {
    const std::uint32_t kind = random(200);
    const std::size_t most = kind == 0 ? 40 * megabyte : kind < 10 ? 3 * megabyte : 5 * page;
    return 1 + random(static_cast<std::uint32_t>(most));
  }
  std::mt19937 random_;
  std::map<std::byte*, std::size_t> blocks_;
};

TEST(RegisteredBlocks, NeverOverlapAreZeroAndLeaveNothingBehind) {
  const Arenas before = Arenas::now();
  for (std::uint32_t seed = 1; seed <= 4; ++seed) {
    SCOPED_TRACE(seed);
    Model model(seed);
    for (int step = 0; step < 4000; ++step) {
      // More and more of them, then fewer and fewer, and so on.
      const bool grows = step / 1000 % 2 == 0;
      if (model.size() == 0 || model.random(10) < (grows ? 7u : 3u)) {
        ASSERT_NO_FATAL_FAILURE(model.allocate_one()) << "step " << step;
      } else {
        model.free_one();
      }
    }
  }
  EXPECT_EQ(Arenas::now(), before);
}

TEST(RegisteredBlocks, OfFourKilobytesShareOneDescriptorForSixtyFourMegabytes) {
  const Arenas before = Arenas::now();
  std::vector<std::byte*> blocks;
  for (int i = 0; i < 10'000; ++i) blocks.push_back(allocated(page));
  EXPECT_LE(Arenas::now().descriptors, before.descriptors + 1);
  EXPECT_LE(Arenas::now().mappings, before.mappings + 1);
  // Every other one, in an order that leaves as many gaps as there can be; then what was given back serves again.
  for (std::size_t i = 0; i < blocks.size(); i += 2) free_block(blocks[i]);
  for (std::size_t i = 0; i < blocks.size(); i += 2) blocks[i] = allocated(page);
  EXPECT_LE(Arenas::now().descriptors, before.descriptors + 1);
  for (std::byte* block : blocks) free_block(block);
  EXPECT_EQ(Arenas::now(), before);
}

TEST(RegisteredBlocks, ThatAreAllocatedAgainAreZero) {
  std::byte* const neighbour = allocated(page);
  const Arenas before = Arenas::now();
  for (int turn = 0; turn < 300; ++turn) {
    const std::size_t bytes = page * (1 + static_cast<std::size_t>(turn) % 7);
    std::byte* const block = allocated(bytes);
    ASSERT_TRUE(is_zero(block, bytes)) << "turn " << turn;
    soil(block, bytes);
    free_block(block);
  }
  EXPECT_EQ(Arenas::now(), before) << "the pages that were given back serve again";
  free_block(neighbour);
}

TEST(RegisteredBlocks, ThatAreLargeHaveAFileThatEndsWithThem) {
  std::byte* const neighbour = allocated(page);
  const Arenas before = Arenas::now();
  std::byte* const large = allocated(largest_shared_block + 1);
  EXPECT_EQ(Arenas::now().descriptors, before.descriptors + 1);
  Arena arena = RegisteredMemory::instance().find(large, largest_shared_block + 1).value_or(Arena());
  EXPECT_EQ(arena.base, large);
  EXPECT_EQ(arena.bytes, largest_shared_block + page);
  arena.file.reset();
  free_block(large);
  EXPECT_EQ(Arenas::now(), before);
  free_block(neighbour);
}

TEST(RegisteredBlocks, OfOneArenaAreFoundInOneFileAndChangeNoAnswer) {
  std::byte* const first = allocated(page);
  const std::uint64_t changes = RegisteredMemory::instance().changes();
  std::byte* const second = allocated(3 * page);
  const auto one = RegisteredMemory::instance().find(first, page);
  const auto other = RegisteredMemory::instance().find(second + 5, page);
  ASSERT_TRUE(one && other);
  EXPECT_EQ(one->id, other->id);
  EXPECT_FALSE(RegisteredMemory::instance().find(&changes, 8));
  EXPECT_FALSE(RegisteredMemory::instance().find(one->base, one->bytes + 1));
  free_block(second);
  EXPECT_EQ(RegisteredMemory::instance().changes(), changes);
  free_block(first);
  EXPECT_NE(RegisteredMemory::instance().changes(), changes);
  EXPECT_FALSE(RegisteredMemory::instance().find(first, page));
}

TEST(RegisteredBlocks, ThatWereQuarantinedAreNotGivenOutAgainWhileTheirArenaLives) {
  const Arenas before = Arenas::now();
  std::byte* const neighbour = allocated(page);
  std::byte* const victim = allocated(megabyte);
  RegisteredMemory::instance().quarantine(victim + 1000);
  RegisteredMemory::instance().quarantine(&before);
  RegisteredMemory::instance().quarantine(nullptr);
  soil(victim, megabyte);
  free_block(victim);
  EXPECT_EQ(RegisteredMemory::instance().free(victim).code(), TUTTI_INVALID_ARGUMENT);
  EXPECT_TRUE(is_zero(victim, megabyte)) << "its pages are the system's again";
  std::vector<std::byte*> blocks;
  for (std::size_t bytes = 0; bytes < 2 * shared_arena_bytes; bytes += megabyte / 4) {
    blocks.push_back(allocated(megabyte / 4));
    EXPECT_TRUE(blocks.back() >= victim + megabyte || blocks.back() + megabyte / 4 <= victim);
  }
  for (std::byte* block : blocks) free_block(block);
  free_block(neighbour);
  EXPECT_EQ(Arenas::now(), before);
}

TEST(RegisteredBlocks, BelongToWhoeverAllocatedThemWhateverOtherThreadsDo) {
  const Arenas before = Arenas::now();
  std::vector<std::thread> threads;
  for (std::uint32_t t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      std::mt19937 random(t);
      std::vector<std::pair<std::byte*, std::size_t>> mine;
      const std::byte mark{static_cast<unsigned char>(t + 1)};
      for (int step = 0; step < 1500; ++step) {
        if (mine.size() < 20) {
          const std::size_t bytes = page * (1 + random() % 12);
          mine.emplace_back(allocated(bytes), bytes);
          ASSERT_TRUE(is_zero(mine.back().first, bytes));
          std::memset(mine.back().first, static_cast<int>(mark), bytes);
        } else {
          std::swap(mine[random() % mine.size()], mine.back());
          const auto [block, bytes] = mine.back();
          mine.pop_back();
          ASSERT_EQ(std::count(block, block + bytes, mark), static_cast<std::ptrdiff_t>(bytes));
          free_block(block);
        }
      }
      for (const auto& [block, bytes] : mine) free_block(block);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Arenas::now(), before);
}

/// A transport that registers memory of any kind, and what it has registered.
struct AnyMemory {
  static inline std::vector<tutti_memory> registered;
  static tutti_transport transport() {
    tutti_transport table{};
    table.name = "any";
    table.close = [](tutti_endpoint*) {};
    table.properties = [](tutti_endpoint*, tutti_endpoint_properties*) {};
    table.register_memory = [](tutti_endpoint*, const tutti_memory* memory, tutti_region* region, char*, std::size_t) {
      registered.push_back(*memory);
      *region = {sizeof *region, memory->base, memory->bytes, memory->base};
      return TUTTI_SUCCESS;
    };
    table.unregister_memory = [](tutti_endpoint*, tutti_region* region) {
      std::erase_if(registered,
                    [&](const tutti_memory& each) { return each.base == region->base && each.bytes == region->bytes; });
    };
    return table;
  }
};

TEST(CallersMemory, IsRegisteredOnceAndAsLongAsItsCallerSays) {
  const tutti_transport table = AnyMemory::transport();
  std::vector<std::byte> memory(3 * page);
  std::byte* const base = memory.data();
  RegisteredMemory& all = RegisteredMemory::instance();
  {
    EndpointGroup group;
    group.endpoints.emplace_back(&table, reinterpret_cast<tutti_endpoint*>(&group));
    Registrations known(group);
    const auto regions_of = [&](std::byte* input, std::size_t in, std::byte* output, std::size_t out) {
      const auto regions = known.of(input, in, output, out);
      return regions.empty() ? Regions{} : regions[0];
    };
    EXPECT_EQ(regions_of(base, page, nullptr, 0).input, nullptr);
    const std::uint64_t small = all.add(base, page);
    const std::uint64_t large = all.add(base, 2 * page);
    for (int again = 0; again < 2; ++again) {
      ASSERT_NE(regions_of(base + 1, page - 1, nullptr, 0).input, nullptr);
      const Regions both = regions_of(base, page, base + page, page);
      ASSERT_NE(both.input, nullptr);
      ASSERT_NE(both.output, nullptr);
      EXPECT_EQ(both.output->bytes, 2 * page);
      EXPECT_EQ(AnyMemory::registered.size(), 2u);
    }
    EXPECT_EQ(AnyMemory::registered[0].kind, TUTTI_MEMORY_HOST);
    EXPECT_EQ(AnyMemory::registered[0].fd_kind, TUTTI_FD_NONE);
    EXPECT_EQ(AnyMemory::registered[0].fd, -1);
    EXPECT_EQ(regions_of(base + page, 2 * page, nullptr, 0).input, nullptr) << "it ends before";
    all.withdraw(small);
    EXPECT_EQ(regions_of(base, page, nullptr, 0).input->bytes, 2 * page) << "the other holds it, too";
    EXPECT_EQ(AnyMemory::registered.size(), 1u);
    all.withdraw(large);
    all.withdraw(large);
    EXPECT_EQ(regions_of(base, page, nullptr, 0).input, nullptr);
    EXPECT_TRUE(AnyMemory::registered.empty());
    // What comes to the same place is another memory.
    const std::uint64_t again = all.add(base, page);
    EXPECT_NE(regions_of(nullptr, 0, base, page).output, nullptr);
    EXPECT_EQ(AnyMemory::registered.size(), 1u);
    all.withdraw(again);
    const std::uint64_t third = all.add(base, page);
    EXPECT_NE(regions_of(nullptr, 0, base, page).output, nullptr);
    EXPECT_EQ(AnyMemory::registered.size(), 1u);
    static_cast<void>(third);
  }
  EXPECT_TRUE(AnyMemory::registered.empty()) << "a communicator that ends gives up what it has";
  EXPECT_TRUE(all.find(base, page)) << "its caller's registration stays";
}

}  // namespace
}  // namespace tutti::test
