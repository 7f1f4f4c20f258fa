// The v-variants over the real library: blocks with counts of their own, anywhere in memory.
#include <gmock/gmock.h>

#include <random>

#include "tests/support/ranks.h"
#include "tests/support/sanitizers.h"

namespace tutti::test {
namespace {

using testing::HasSubstr;

/// Counts of what rank i has for rank j, the same whoever asks.
using Counts = std::vector<std::vector<std::size_t>>;

enum class Division { even, skewed, zeros, one_has_all };
constexpr Division kDivisions[] = {Division::even, Division::skewed, Division::zeros, Division::one_has_all};

/// most: elements of the longest block.
Counts divide(Division how, int ranks, std::size_t most, std::mt19937& random) {
  const std::size_t n = static_cast<std::size_t>(ranks);
  Counts counts(n, std::vector<std::size_t>(n, most));
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      if (how == Division::skewed) counts[i][j] = most >> random() % 12;
      if (how == Division::zeros && random() % 2 == 0) counts[i][j] = 0;
      if (how == Division::one_has_all && (i != n - 1 || j != 0)) counts[i][j] = 0;
    }
  }
  return counts;
}

/// Element i of what rank `from` has for rank `to`.
std::int32_t value(int from, int to, std::size_t i) {
  return static_cast<std::int32_t>((static_cast<std::size_t>(from) * 1009 + static_cast<std::size_t>(to) * 131 + i * 7) %
                                   8191);
}

/// Blocks that lie apart, in another order than the ranks', with a word before and behind each that nobody may write.
class Blocks {
 public:
  explicit Blocks(const std::vector<std::size_t>& counts) : counts_(counts) {
    blocks_.resize(counts.size());
    memory_.resize(counts.size());
    for (std::size_t b = counts.size(); b-- > 0;) {
      memory_[b].assign(counts[b] + 2, kUntouched);
      blocks_[b] = {counts[b] != 0 ? memory_[b].data() + 1 : nullptr, counts[b]};
    }
  }
  template <typename Value>
  Blocks& fill(const Value& of) {
    for (std::size_t b = 0; b < counts_.size(); ++b) {
      for (std::size_t i = 0; i < counts_[b]; ++i) memory_[b][i + 1] = of(static_cast<int>(b), i);
    }
    return *this;
  }
  template <typename Value>
  void expect(const Value& of, const std::string& where) const {
    for (std::size_t b = 0; b < counts_.size(); ++b) {
      ASSERT_EQ(memory_[b].front(), kUntouched) << where;
      ASSERT_EQ(memory_[b].back(), kUntouched) << where;
      for (std::size_t i = 0; i < counts_[b]; ++i)
        ASSERT_EQ(memory_[b][i + 1], of(static_cast<int>(b), i)) << where << ", block " << b << ", element " << i;
    }
  }
  const tutti_block* list() const { return blocks_.data(); }
  const tutti_block& operator[](int b) const { return blocks_[static_cast<std::size_t>(b)]; }

 private:
  static constexpr std::int32_t kUntouched = -77;
  std::vector<std::size_t> counts_;
  std::vector<std::vector<std::int32_t>> memory_;
  std::vector<tutti_block> blocks_;
};

std::vector<std::size_t> column(const Counts& counts, int to) {
  std::vector<std::size_t> of;
  for (const auto& row : counts) of.push_back(row[static_cast<std::size_t>(to)]);
  return of;
}
const std::vector<std::size_t>& row(const Counts& counts, int from) { return counts[static_cast<std::size_t>(from)]; }

struct Case {
  int ranks;
  const char* transports;
};

class VVariants : public testing::TestWithParam<Case> {
 protected:
  /// Runs body(rank, comm, counts, where) for every division and length.
  template <typename Body>
  void on_every_division(const Body& body) {
    const Ranks ranks(GetParam().ranks, GetParam().transports);
    ranks.run([&](int rank, tutti_comm* comm) {
      std::mt19937 random(7);  // alike on all ranks
      for (const std::size_t most : {1u, 5u, 1000u, 30'000u, 200'001u}) {
        if (most > 100'000 && GetParam().ranks > (under_asan || under_tsan ? 2 : 5)) continue;
        for (const Division how : kDivisions) {
          const Counts counts = divide(how, ranks.size(), most, random);
          body(rank, comm, counts,
               "division " + std::to_string(static_cast<int>(how)) + " of " + std::to_string(most) + ", rank " +
                   std::to_string(rank));
          if (testing::Test::HasFatalFailure()) return;
        }
      }
    });
  }
};

TEST_P(VVariants, AllToAllGivesEachItsBlock) {
  on_every_division([](int rank, tutti_comm* comm, const Counts& counts, const std::string& where) {
    Blocks send(row(counts, rank)), recv(column(counts, rank));
    // Calls over the same blocks are not laid out again, and go another way where they are short.
    for (int again = 0; again < 4; ++again) {
      send.fill([&](int to, std::size_t i) { return value(rank, to, i) + again; });
      ASSERT_EQ(tutti_all_to_all_v(send.list(), recv.list(), TUTTI_INT32, comm, {}, nullptr), TUTTI_SUCCESS)
          << last_error() << "; " << where;
      recv.expect([&](int from, std::size_t i) { return value(from, rank, i) + again; }, where);
      send.expect([&](int to, std::size_t i) { return value(rank, to, i) + again; }, where);
    }
  });
}

TEST_P(VVariants, AllGatherGivesAllEveryBlock) {
  for (const char* algorithm : {"", "direct", "ring"}) {
    on_every_division([&](int rank, tutti_comm* comm, const Counts& counts, const std::string& where) {
      const std::vector<std::size_t> of = column(counts, 0);
      for (const bool in_place : {false, true}) {
        Blocks send({of[static_cast<std::size_t>(rank)]}), recv(of);
        send.fill([&](int, std::size_t i) { return value(rank, 0, i); });
        if (in_place) recv.fill([&](int block, std::size_t i) { return block == rank ? value(rank, 0, i) : -1; });
        tutti_call call = TUTTI_CALL_INIT;
        call.algorithm = *algorithm != '\0' ? algorithm : nullptr;
        for (int again = 0; again < 3; ++again) {
          ASSERT_EQ(tutti_all_gather_v(in_place ? recv[rank].ptr : send[0].ptr, send[0].count, recv.list(), TUTTI_INT32,
                                       comm, {}, &call),
                    TUTTI_SUCCESS)
              << last_error() << "; " << where;
          recv.expect([&](int from, std::size_t i) { return value(from, 0, i); }, where);
          // Others' blocks are not what the next call finds there.
          recv.fill([&](int from, std::size_t i) { return from == rank ? value(rank, 0, i) : -1; });
        }
      }
    });
  }
}

TEST_P(VVariants, ReduceScatterGivesEachItsSum) {
  for (const char* algorithm : {"", "direct", "ring"}) {
    on_every_division([&](int rank, tutti_comm* comm, const Counts& counts, const std::string& where) {
      const std::vector<std::size_t> of = column(counts, 0);
      for (const bool in_place : {false, true}) {
        Blocks send(of), recv({of[static_cast<std::size_t>(rank)]});
        tutti_call call = TUTTI_CALL_INIT;
        call.algorithm = *algorithm != '\0' ? algorithm : nullptr;
        for (int again = 0; again < 3; ++again) {
          send.fill([&](int to, std::size_t i) { return value(rank, to, i); });
          recv.fill([&](int, std::size_t) { return -1; });
          ASSERT_EQ(tutti_reduce_scatter_v(send.list(), in_place ? send[rank].ptr : recv[0].ptr, recv[0].count, TUTTI_INT32,
                                           TUTTI_SUM, comm, {}, &call),
                    TUTTI_SUCCESS)
              << last_error() << "; " << where;
        }
        const auto sum = [&](std::size_t i) {
          std::int32_t total = 0;
          for (int r = 0; r < GetParam().ranks; ++r) total += value(r, rank, i);
          return total;
        };
        if (!in_place) recv.expect([&](int, std::size_t i) { return sum(i); }, where);
        send.expect([&](int to, std::size_t i) { return in_place && to == rank ? sum(i) : value(rank, to, i); }, where);
      }
    });
  }
}

TEST_P(VVariants, GatherAndScatterFromAndToEveryRoot) {
  on_every_division([&](int rank, tutti_comm* comm, const Counts& counts, const std::string& where) {
    const std::vector<std::size_t> of = column(counts, 0);
    const std::size_t own = of[static_cast<std::size_t>(rank)];
    for (int root = 0; root < GetParam().ranks; ++root) {
      const bool is_root = rank == root;
      Blocks all(is_root ? of : std::vector<std::size_t>()), mine({own}), back({own});
      mine.fill([&](int, std::size_t i) { return value(rank, 1, i); });
      ASSERT_EQ(tutti_gather_v(mine[0].ptr, own, is_root ? all.list() : nullptr, TUTTI_INT32, root, comm, {}, nullptr),
                TUTTI_SUCCESS)
          << last_error() << "; " << where;
      all.expect([&](int from, std::size_t i) { return value(from, 1, i); }, where);
      ASSERT_EQ(tutti_scatter_v(is_root ? all.list() : nullptr, back[0].ptr, own, TUTTI_INT32, root, comm, {}, nullptr),
                TUTTI_SUCCESS)
          << last_error() << "; " << where;
      back.expect([&](int, std::size_t i) { return value(rank, 1, i); }, where);
    }
  });
}

TEST_P(VVariants, OpaqueElementsOfAnyLengthAreMoved) {
  const Ranks ranks(GetParam().ranks, GetParam().transports);
  ranks.run([&](int rank, tutti_comm* comm) {
    for (const int bytes : {1, 3, 100, 300'000}) {
      const auto type = static_cast<tutti_type>(TUTTI_OPAQUE + bytes);
      const std::size_t n = static_cast<std::size_t>(ranks.size()), size = static_cast<std::size_t>(bytes);
      // Rank r has r + 1 elements.
      std::vector<std::vector<std::uint8_t>> memory;
      std::vector<tutti_block> blocks;
      for (std::size_t r = 0; r < n; ++r) {
        memory.emplace_back((r + 1) * size);
        blocks.push_back({memory.back().data(), r + 1});
      }
      const std::size_t own = static_cast<std::size_t>(rank);
      std::vector<std::uint8_t> mine((own + 1) * size);
      const auto byte = [](std::size_t r, std::size_t i) { return static_cast<std::uint8_t>(r * 31 + i * 5 + i / 256); };
      for (std::size_t i = 0; i < mine.size(); ++i) mine[i] = byte(own, i);
      ASSERT_EQ(tutti_all_gather_v(mine.data(), own + 1, blocks.data(), type, comm, {}, nullptr), TUTTI_SUCCESS)
          << last_error();
      for (std::size_t r = 0; r < n; ++r) {
        for (std::size_t i = 0; i < memory[r].size(); ++i) ASSERT_EQ(memory[r][i], byte(r, i)) << r << " " << i;
      }
      std::vector<std::uint8_t> all(n * size), even(size);
      for (std::size_t i = 0; i < size; ++i) even[i] = byte(own, i);
      ASSERT_EQ(tutti_all_gather(even.data(), all.data(), 1, type, comm, {}, nullptr), TUTTI_SUCCESS) << last_error();
      for (std::size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], byte(i / size, i % size)) << i;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Worlds, VVariants,
                         testing::Values(Case{1, ""}, Case{2, "shm"}, Case{2, "tcp"}, Case{3, "shm"}, Case{4, "tcp"},
                                         Case{5, "shm"}, Case{7, "shm"}, Case{8, "tcp"}, Case{9, "shm"}),
                         [](const testing::TestParamInfo<Case>& of) {
                           return std::to_string(of.param.ranks) + "Over" +
                                  (*of.param.transports != '\0' ? of.param.transports : "Nothing");
                         });

TEST(VVariantCalls, GoOnQueuesAndInGroups) {
  const Ranks ranks(3);
  ranks.run([&](int rank, tutti_comm* comm) {
    tutti_queue* queue = nullptr;
    ASSERT_EQ(tutti_queue_create(&queue), TUTTI_SUCCESS);
    const std::vector<std::size_t> of = {4, 0, 5000};
    const std::size_t own = of[static_cast<std::size_t>(rank)];
    Blocks mine({own}), first(of), second(of);
    mine.fill([&](int, std::size_t i) { return value(rank, 0, i); });
    {
      // The list is the caller's for as long as the call takes to return.
      const std::vector<tutti_block> list(first.list(), first.list() + 3);
      ASSERT_EQ(tutti_all_gather_v(mine[0].ptr, own, list.data(), TUTTI_INT32, comm, {TUTTI_STREAM_QUEUE, queue}, nullptr),
                TUTTI_SUCCESS)
          << last_error();
    }
    ASSERT_EQ(tutti_queue_wait(queue, 0), TUTTI_SUCCESS) << last_error();
    ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
    {
      const std::vector<tutti_block> list(second.list(), second.list() + 3);
      ASSERT_EQ(tutti_all_gather_v(mine[0].ptr, own, list.data(), TUTTI_INT32, comm, {}, nullptr), TUTTI_SUCCESS)
          << last_error();
    }
    ASSERT_EQ(tutti_group_end(nullptr), TUTTI_SUCCESS) << last_error();
    for (const Blocks* got : {&first, &second}) got->expect([&](int from, std::size_t i) { return value(from, 0, i); }, "");
    EXPECT_EQ(tutti_queue_destroy(queue), TUTTI_SUCCESS);
  });
}

TEST(VVariantCalls, ThatAreWrongAreRefusedAndLoseNothing) {
  const Ranks ranks(1);
  std::int32_t data[4] = {1, 2, 3, 4}, out[4] = {};
  const tutti_block block = {out, 4}, shorter = {out, 3}, nowhere = {nullptr, 4}, endless = {out, UINT64_MAX / 2};
  tutti_comm* const comm = ranks[0];
  const auto refused = [](tutti_status status, const char* words) {
    EXPECT_EQ(status, TUTTI_INVALID_ARGUMENT);
    EXPECT_THAT(last_error(), HasSubstr(words));
  };
  refused(tutti_all_gather_v(data, 4, nullptr, TUTTI_INT32, comm, {}, nullptr), "NULL list of receive blocks");
  refused(tutti_all_gather_v(data, 4, &nowhere, TUTTI_INT32, comm, {}, nullptr), "NULL receive block 0");
  refused(tutti_all_gather_v(nullptr, 4, &block, TUTTI_INT32, comm, {}, nullptr), "NULL send block 0");
  refused(tutti_all_gather_v(data, 4, &shorter, TUTTI_INT32, comm, {}, nullptr),
          "all_gather_v sends 4 elements to its own rank, 0, which receives 3");
  refused(tutti_all_gather_v(data, UINT64_MAX / 2, &endless, TUTTI_INT32, comm, {}, nullptr), "more elements than memory");
  refused(tutti_reduce_scatter_v(&block, data, 4, TUTTI_COMPLEX64, TUTTI_MAX, comm, {}, nullptr),
          "operator max does not apply to complex64");
  refused(tutti_gather_v(data, 4, &block, TUTTI_INT32, 1, comm, {}, nullptr), "root 1 is outside");
  tutti_call call = TUTTI_CALL_INIT;
  call.algorithm = "bruck";
  refused(tutti_all_gather_v(data, 4, &block, TUTTI_INT32, comm, {}, &call), "which joins blocks");
  EXPECT_EQ(tutti_all_gather_v(data, 4, &block, TUTTI_INT32, comm, {}, nullptr), TUTTI_SUCCESS) << last_error();
  EXPECT_EQ(std::vector<std::int32_t>(out, out + 4), (std::vector<std::int32_t>{1, 2, 3, 4}));
}

/// Every rank's call, of which some differ: all hear TUTTI_MISMATCH with these words.
void expect_mismatch(int ranks, const std::function<tutti_status(int, tutti_comm*)>& call, const char* words) {
  const Ranks all(ranks);
  all.run([&](int rank, tutti_comm* comm) {
    EXPECT_EQ(call(rank, comm), TUTTI_MISMATCH) << rank << ": " << last_error();
    EXPECT_THAT(last_error(), HasSubstr(words)) << rank;
  });
}

TEST(VVariantCalls, ThatDifferAreTold) {
  std::int32_t memory[3][64] = {};
  // All ranks must have the same counts of an all_gather_v.
  expect_mismatch(
      3,
      [&](int rank, tutti_comm* comm) {
        std::int32_t out[64];
        const std::size_t last = rank == 2 ? 8 : 9;
        const tutti_block blocks[] = {{out, 4}, {out + 8, rank == 2 ? 4u : 4u}, {out + 16, last}};
        return tutti_all_gather_v(memory[rank], blocks[rank].count, blocks, TUTTI_INT32, comm, {}, nullptr);
      },
      "all_gather_v");
  // A verb and its v-variant are two.
  expect_mismatch(
      2,
      [&](int rank, tutti_comm* comm) {
        std::int32_t out[64];
        const tutti_block blocks[] = {{out, 4}, {out + 8, 4}};
        return rank == 0 ? tutti_all_gather(memory[0], out, 4, TUTTI_INT32, comm, {}, nullptr)
                         : tutti_all_gather_v(memory[1], 4, blocks, TUTTI_INT32, comm, {}, nullptr);
      },
      "all_gather_v of 8 int32");
}

// Calls like the one before, over the same blocks, are hardly looked at. Whatever differs is seen all the same.
TEST(VVariantCalls, AreNotTakenForTheOneBefore) {
  const Ranks ranks(2, "shm");
  ranks.run([](int rank, tutti_comm* comm) {
    const auto gather = [&](const Blocks& mine, const Blocks& all, tutti_type type) {
      for (int again = 0; again < 4; ++again)
        ASSERT_EQ(tutti_all_gather_v(mine[0].ptr, mine[0].count, all.list(), type, comm, {}, nullptr), TUTTI_SUCCESS)
            << last_error();
      all.expect([](int from, std::size_t i) { return value(from, 0, i); }, "rank " + std::to_string(rank));
    };
    const auto own = [&](const std::vector<std::size_t>& counts) {
      Blocks mine({counts[static_cast<std::size_t>(rank)]});
      mine.fill([&](int, std::size_t i) { return value(rank, 0, i); });
      return mine;  // not a copy: blocks point into it
    };
    const Blocks mine = own({3, 5}), fewer = own({3, 4});
    gather(mine, Blocks({3, 5}), TUTTI_INT32);
    gather(mine, Blocks({3, 5}), TUTTI_INT32);  // other memory
    gather(mine, Blocks({3, 5}), TUTTI_UINT32);
    gather(fewer, Blocks({3, 4}), TUTTI_INT32);
    const Blocks all({3, 5});
    gather(mine, all, TUTTI_INT32);
    const tutti_block shorter[] = {all[0], {all[1].ptr, 4}};  // the same memory
    ASSERT_EQ(tutti_all_gather_v(mine[0].ptr, fewer[0].count, shorter, TUTTI_INT32, comm, {}, nullptr), TUTTI_SUCCESS);
    gather(mine, all, TUTTI_INT32);
    std::int32_t in[8], out[16];  // as many elements as all blocks of the call before
    for (std::size_t i = 0; i < 8; ++i) in[i] = value(rank, 1, i);
    ASSERT_EQ(tutti_all_gather(in, out, 8, TUTTI_INT32, comm, {}, nullptr), TUTTI_SUCCESS) << last_error();
    for (std::size_t i = 0; i < 16; ++i) ASSERT_EQ(out[i], value(static_cast<int>(i / 8), 1, i % 8)) << i;
  });
}

TEST(VVariantCalls, ThatDifferAreToldAfterCallsThatWereAlike) {
  expect_mismatch(
      2,
      [](int rank, tutti_comm* comm) {
        std::int32_t in[8] = {}, out[16] = {};
        tutti_block blocks[] = {{out, 3}, {out + 8, 5}};
        for (int again = 0; again < 4; ++again)
          EXPECT_EQ(tutti_all_gather_v(in, blocks[rank].count, blocks, TUTTI_INT32, comm, {}, nullptr), TUTTI_SUCCESS);
        if (rank == 1) blocks[0].count = 2;
        return tutti_all_gather_v(in, blocks[rank].count, blocks, TUTTI_INT32, comm, {}, nullptr);
      },
      "all_gather_v");
}

TEST(VVariantCalls, OfOneTotalButOtherCountsSaySo) {
  std::int32_t memory[3][64] = {};
  expect_mismatch(
      2,
      [&](int rank, tutti_comm* comm) {
        std::int32_t out[64];
        const std::size_t first = rank == 0 ? 2 : 1;
        const tutti_block blocks[] = {{out, first}, {out + 8, 3 - first}};
        return tutti_all_gather_v(memory[rank], blocks[rank].count, blocks, TUTTI_INT32, comm, {}, nullptr);
      },
      "with other counts of its blocks");
}

// Every message that is taken has the length that it should have: counts of whole windows.
TEST(VVariantCalls, WhoseBlocksDifferByWholeWindowsFail) {
  for (const char* transport : {"shm", "tcp"}) {
    for (const auto& [sent, taken] :
         {std::pair<std::size_t, std::size_t>{131'072, 65'536}, {65'536, 131'072}, {262'144, 196'608}, {524'288, 65'536}}) {
      const Ranks ranks(2, transport, 20'000'000'000);
      ranks.run([&](int rank, tutti_comm* comm) {
        std::vector<std::int32_t> in(524'288 + 8), out(524'288 + 8);
        const tutti_block send[] = {{in.data(), 2}, {in.data() + 8, rank == 0 ? sent : 2}};
        const tutti_block recv[] = {{out.data(), rank == 0 ? 2 : taken}, {out.data() + 524'296 - 2, 2}};
        const tutti_status status = tutti_all_to_all_v(send, recv, TUTTI_INT32, comm, {}, nullptr);
        EXPECT_TRUE(status == TUTTI_MISMATCH || (rank == 0 && status == TUTTI_SUCCESS)) << rank << ": " << last_error();
        EXPECT_EQ(tutti_barrier(comm, {}, nullptr), TUTTI_MISMATCH) << rank << ": " << last_error();
        EXPECT_THAT(last_error(), HasSubstr("all_to_all_v")) << transport << " " << sent << " " << taken;
      });
    }
  }
}

// A block that one end knows to be empty leaves a message behind, or takes the next operation's.
TEST(VVariantCalls, WhoseBlocksAreEmptyAtOneEndAreBlamedLater) {
  const Ranks ranks(2, "", 20'000'000'000);
  ranks.run([&](int rank, tutti_comm* comm) {
    std::int32_t in[64] = {}, out[64] = {};
    const tutti_block send[] = {{in, 2}, {in + 8, rank == 0 ? 5u : 2u}};
    const tutti_block recv[] = {{out, rank == 0 ? 2u : 0u}, {out + 8, 2}};
    tutti_status status = tutti_all_to_all_v(send, recv, TUTTI_INT32, comm, {}, nullptr);
    // Rank 0 may be through with a barrier that rank 1 finds out in.
    for (int n = 0; n < 2 && status == TUTTI_SUCCESS; ++n) status = tutti_barrier(comm, {}, nullptr);
    EXPECT_EQ(status, TUTTI_MISMATCH) << rank << ": " << last_error();
    EXPECT_THAT(last_error(), HasSubstr("all_to_all_v")) << rank;
  });
}

TEST(VVariantCalls, OfOpaqueElementsCountElements) {
  const Ranks ranks(1);
  std::byte data[400], out[400];
  const tutti_block block = {out, 3};
  EXPECT_EQ(tutti_all_gather_v(data, 4, &block, static_cast<tutti_type>(TUTTI_OPAQUE + 100), ranks[0], {}, nullptr),
            TUTTI_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("sends 4 elements to its own rank, 0, which receives 3"));
}

TEST(VVariantCalls, WhoseBlocksDoNotMatchFail) {
  // Rank 0 sends 5 elements to rank 1, which wants 4.
  const Ranks ranks(2, "", 20'000'000'000);
  ranks.run([&](int rank, tutti_comm* comm) {
    std::int32_t in[64] = {}, out[64] = {};
    const tutti_block send[] = {{in, 2}, {in + 8, rank == 0 ? 5u : 2u}};
    const tutti_block recv[] = {{out, rank == 0 ? 2u : 4u}, {out + 8, 2}};
    const tutti_status status = tutti_all_to_all_v(send, recv, TUTTI_INT32, comm, {}, nullptr);
    // Rank 0 may be through with it before rank 1 finds out; then it hears at its next call.
    EXPECT_TRUE(status == TUTTI_MISMATCH || (rank == 0 && status == TUTTI_SUCCESS)) << rank << ": " << last_error();
    EXPECT_EQ(tutti_barrier(comm, {}, nullptr), TUTTI_MISMATCH) << rank << ": " << last_error();
    EXPECT_THAT(last_error(), HasSubstr("sent 20 bytes of a block where rank 1")) << rank;
    EXPECT_THAT(last_error(), HasSubstr("receives 16 bytes")) << rank;
  });
}

}  // namespace
}  // namespace tutti::test
