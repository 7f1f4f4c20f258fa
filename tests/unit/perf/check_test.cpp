// The check of tutti-perf: right results pass, and whatever is wrong with a single element is found.
#include "perf/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "perf/user_operators.h"
#include "src/tables/element_types.h"
#include "src/tables/operators.h"
#include "tests/unit/perf/opaque.h"

namespace tutti::perf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Bytes = std::vector<std::byte>;

// All ranks of one operation, their buffers filled and poisoned as tutti-perf does it.
struct World {
  std::vector<CheckedOperation> operations;
  std::vector<GuardedBuffer> send;
  std::vector<GuardedBuffer> recv;
  std::vector<Places> places;
  uint64_t size;

  World(const char* name, tutti_type type, tutti_op op, int ranks, int root, uint64_t count, bool in_place,
        BlockDivision division = BlockDivision::even, int operands = 1)
      : size(tutti_type_size(type)) {
    const BenchedCollective* collective = find_collective(name);
    for (int rank = 0; rank < ranks; ++rank) {
      operations.push_back(
          {collective, {type, op, collective->reduces(), ranks, 3, operands}, root, rank, count, in_place, division});
      const CheckedOperation& operation = operations.back();
      const uint64_t bytes = std::max(operation.send_bytes(), operation.recv_bytes());
      send.push_back(GuardedBuffer::allocate(bytes));
      recv.push_back(GuardedBuffer::allocate(bytes));
      places.push_back(lay_out(operation, send.back().data(), recv.back().data()));
      poison_result(operation, places.back());
      fill_send(operation, places.back());
    }
  }

  int ranks() const { return static_cast<int>(operations.size()); }
  uint64_t block() const { return operations[0].count * size; }

  Bytes sent(int rank, uint64_t block_index) const {
    const std::byte* from = places[static_cast<size_t>(rank)].send + block_index * block();
    return Bytes(from, from + block());
  }
  void receive(int rank, uint64_t block_index, const Bytes& bytes) {
    std::copy(bytes.begin(), bytes.end(), places[static_cast<size_t>(rank)].recv + block_index * block());
  }
  CheckFinding check(int rank) const {
    return check_result(operations[static_cast<size_t>(rank)], places[static_cast<size_t>(rank)]);
  }
  // What all ranks' block folds to; that fill_folded is right is data_test's matter.
  Bytes folded(uint64_t block_index) const {
    Bytes bytes(block());
    fill_folded(operations[0].pattern, block_index * operations[0].count, operations[0].count, bytes.data());
    return bytes;
  }
};

// Carries the collective out, by its row of the table (whose own test knows the API's definitions), on inputs that are read
// before anything is written.
void carry_out(World& world) {
  const BenchedCollective& collective = *world.operations[0].collective;
  const int root = world.operations[0].root;
  const int n = world.ranks();
  const auto u = [](int value) { return static_cast<uint64_t>(value); };
  std::vector<std::vector<Bytes>> in(u(n));
  for (int r = 0; r < n; ++r) {
    const CheckedOperation& operation = world.operations[u(r)];
    if (!operation.collective->sends(r, root)) continue;
    for (uint64_t b = 0; b < operation.collective->send_blocks(n); ++b) in[u(r)].push_back(world.sent(r, b));
  }
  for (int r = 0; r < n; ++r) {
    if (!collective.receives(r, root)) continue;
    for (uint32_t b = 0; b < collective.recv_blocks(n); ++b) {
      const BlockOrigin from = collective.origin(r, n, root, b);
      world.receive(r, b, from.fold ? world.folded(from.block) : in[u(from.rank)][from.block]);
    }
  }
}

TEST(Check, ExpectsOfSendRecvWhatTheRankBeforeHas) {
  const BenchedCollective& send_recv = *find_collective("send_recv");
  for (const auto& [rank, before] : {std::pair{0, 2}, {1, 0}, {2, 1}}) {
    const BlockOrigin from = send_recv.origin(rank, 3, 0, 0);
    EXPECT_EQ(from.rank, before);
    EXPECT_EQ(from.block, 0u);
    EXPECT_FALSE(from.fold);
  }
  EXPECT_EQ(send_recv.origin(0, 1, 0, 0).rank, 0);
}

TEST(Check, AcceptsEveryCollectiveCarriedOutByItsDefinition) {
  for (const BenchedCollective& collective : collectives()) {
    const std::string name = collective.name;
    if (name.ends_with("_v") || name == "barrier") continue;
    for (const bool in_place : {false, true}) {
      if (in_place && !collective.in_place) continue;
      for (const int root : {0, 2}) {
        World world(collective.name, TUTTI_FLOAT32, TUTTI_SUM, 3, root, 1500, in_place);
        carry_out(world);
        for (int rank = 0; rank < 3; ++rank) {
          EXPECT_EQ(world.check(rank).wrong, 0u) << name << " in place " << in_place << ": " << world.check(rank).sentence;
          EXPECT_EQ(world.send[static_cast<size_t>(rank)].trespasses(), 0u) << name;
          EXPECT_EQ(world.recv[static_cast<size_t>(rank)].trespasses(), 0u) << name;
        }
      }
    }
  }
}

// A list for each rank; what two ranks have for each other is as long on both.
struct Lists {
  std::vector<BlockLists> of;

  explicit Lists(const World& world) {
    for (size_t r = 0; r < world.operations.size(); ++r)
      of.push_back(block_lists(world.operations[r], world.places[r].send, world.places[r].recv));
  }
  // What rank `from` has for rank `to`.
  tutti_block sent(const World& world, int from, int to) const {
    const auto r = static_cast<size_t>(from);
    return of[r].send.empty() ? tutti_block{world.places[r].send, of[r].own} : of[r].send[static_cast<size_t>(to)];
  }
  tutti_block received(const World& world, int from, int to) const {
    const auto r = static_cast<size_t>(to);
    return of[r].recv.empty() ? tutti_block{world.places[r].recv, of[r].own} : of[r].recv[static_cast<size_t>(from)];
  }
};

// The pieces of a rank's result, one behind the other, are the fold of the whole buffers.
void carry_pieces_out(const World& world, const Lists& lists) {
  for (size_t r = 0; r < lists.of.size(); ++r) {
    EXPECT_EQ(lists.of[r].send.size(), world.operations[r].in_place ? 0u : lists.of[r].recv.size());
    uint64_t begin = 0;
    for (const tutti_block& piece : lists.of[r].recv) {
      fill_folded(world.operations[r].pattern, begin, piece.count, static_cast<std::byte*>(piece.ptr));
      begin += piece.count;
    }
    EXPECT_EQ(begin, world.operations[r].count);
  }
}

void carry_v_variant_out(World& world) {
  const Lists lists(world);
  const BenchedCollective& collective = *world.operations[0].collective;
  const int root = world.operations[0].root;
  if (collective.in_pieces) return carry_pieces_out(world, lists);
  std::vector<std::pair<void*, Bytes>> copies;  // in place, a block lies where another one comes
  for (int to = 0; to < world.ranks(); ++to) {
    if (!collective.receives(to, root)) continue;
    if (collective.reduces()) {
      const tutti_block own = lists.received(world, 0, to);
      const auto* const first = static_cast<const std::byte*>(lists.sent(world, 0, to).ptr);
      const auto index = static_cast<uint64_t>(first - world.places[0].send) / world.size;
      EXPECT_EQ(own.count, lists.sent(world, 0, to).count);
      fill_folded(world.operations[0].pattern, index, own.count, own.ptr);
      continue;
    }
    for (int from = 0; from < world.ranks(); ++from) {
      if (!collective.sends(from, root)) continue;
      const tutti_block block = lists.sent(world, from, to);
      ASSERT_EQ(block.count, lists.received(world, from, to).count) << collective.name << " " << from << " to " << to;
      const auto* const bytes = static_cast<const std::byte*>(block.ptr);
      copies.emplace_back(lists.received(world, from, to).ptr, Bytes(bytes, bytes + block.count * world.size));
    }
  }
  for (const auto& [to, bytes] : copies) std::copy(bytes.begin(), bytes.end(), static_cast<std::byte*>(to));
}

TEST(Check, AcceptsEveryVVariantCarriedOutByItsDefinition) {
  for (const BenchedCollective& collective : collectives()) {
    if (!collective.takes_lists) continue;
    for (const BlockDivision division : block_divisions) {
      for (const auto& [root, in_place] : {std::pair{0, false}, {2, false}, {0, true}, {2, true}}) {
        World world(collective.name, TUTTI_INT16, TUTTI_SUM, 3, collective.rooted() ? root : 0, 1501, in_place, division);
        const uint64_t wrong = world.check(0).wrong + world.check(1).wrong + world.check(2).wrong;
        // In place one block may be all, and where it has to be.
        EXPECT_TRUE(wrong > 0 || in_place) << collective.name << ": nobody wrote anything yet";
        carry_v_variant_out(world);
        for (int rank = 0; rank < 3; ++rank)
          EXPECT_EQ(world.check(rank).wrong, 0u) << collective.name << " " << name_of(division) << " in place " << in_place
                                                 << ": " << world.check(rank).sentence;
      }
    }
  }
}

TEST(Check, KnowsOpaqueElementsOfAnySize) {
  for (const BenchedCollective& collective : collectives()) {
    if (collective.senders == Role::nobody || collective.reduces()) continue;
    for (const int bytes : {1, 5, 70'000}) {
      World world(collective.name, opaque(bytes), TUTTI_SUM, 3, 0, 7, false, BlockDivision::even);
      collective.takes_lists ? carry_v_variant_out(world) : carry_out(world);
      for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(world.check(rank).wrong, 0u) << world.check(rank).sentence;
      world.places[0].recv[7 * bytes - 1] ^= std::byte{1};
      EXPECT_EQ(world.check(0).wrong, 1u) << collective.name << " of " << bytes << " bytes";
      EXPECT_THAT(world.check(0).sentence, HasSubstr("element 6 of "));
    }
  }
}

TEST(Check, FindsAWrongOrderOfAnOperatorThatDoesNotCommute) {
  for (const int bytes : {1, 5, 1024}) {
    for (const auto& order : {std::array{0, 1, 2}, {1, 0, 2}, {0, 2, 1}, {2, 1, 0}, {1, 2, 0}}) {
      World world("all_reduce", opaque(bytes), kUserOrdered, 3, 0, 100, false);
      Bytes result = world.sent(order[2], 0);
      for (const size_t r : {1u, 0u}) compose_maps(&world.size, world.sent(order[r], 0).data(), result.data(), 100);
      world.receive(1, 0, result);
      const uint64_t wrong = world.check(1).wrong;
      const bool right = order == std::array{0, 1, 2};
      EXPECT_TRUE(right ? wrong == 0 : wrong > 50) << bytes << " bytes, " << wrong << " wrong";
    }
  }
}

// The library itself, told that the operator commutes: a ring begins each chunk at another rank.
TEST(Check, FindsAnAlgorithmThatKeepsNoOrderOfRanks) {
  for (const int commutes : {0, 1}) {
    World world("all_reduce", opaque(5), kUserOrdered, 3, 0, 3000, false);
    std::array<tutti_comm*, 3> comms = {};
    ASSERT_EQ(tutti_comm_create_all(comms.data(), 3, nullptr), TUTTI_SUCCESS);
    std::array<std::thread, 3> ranks;
    for (size_t r = 0; r < 3; ++r) {
      ranks[r] = std::thread([&, r] {
        tutti_op op = TUTTI_OP_LIMIT;
        tutti_call call = TUTTI_CALL_INIT;
        call.algorithm = commutes != 0 ? "ring" : nullptr;
        EXPECT_EQ(tutti_op_create_user(&op, compose_maps, &world.size, commutes, world.size, comms[r]), TUTTI_SUCCESS);
        EXPECT_EQ(tutti_all_reduce(world.places[r].send, world.places[r].recv, 3000, opaque(5), op, comms[r], {}, &call),
                  TUTTI_SUCCESS);
      });
    }
    for (std::thread& rank : ranks) rank.join();
    for (int rank = 0; rank < 3; ++rank) {
      const uint64_t wrong = world.check(rank).wrong;
      EXPECT_TRUE(commutes == 0 ? wrong == 0 : wrong > 1000) << wrong;
    }
    for (tutti_comm* comm : comms) tutti_comm_destroy(comm);
  }
}

TEST(Check, KnowsSeveralOperandsOfARank) {
  for (const char* name : {"all_reduce", "reduce"}) {
    for (const bool in_place : {false, true}) {
      World world(name, TUTTI_INT16, TUTTI_PROD, 3, 0, 3000, in_place, BlockDivision::even, 4);
      EXPECT_EQ(world.operations[1].send_bytes(), 4 * world.block());
      world.receive(0, 0, world.folded(0));
      EXPECT_EQ(world.check(0).wrong, 0u) << name << ": " << world.check(0).sentence;
      world.places[0].recv[2 * 2999] ^= std::byte{1};
      EXPECT_THAT(world.check(0).sentence, HasSubstr("element 2999 of the result"));
      for (const int r : {0, 1}) {
        if (world.operations[1].collective->receives(r, 0)) world.receive(r, 0, world.folded(0));
      }
      EXPECT_EQ(world.check(1).wrong, 0u) << name << ": " << world.check(1).sentence;
      world.places[1].send[4 * world.block() - 1] ^= std::byte{1};
      EXPECT_THAT(world.check(1).sentence, HasSubstr("element 2999 of operand 7 afterwards"));
    }
  }
}

TEST(Check, ListsTheOperandsOfAnAllReduceV) {
  World world("all_reduce_v", TUTTI_INT32, TUTTI_SUM, 2, 0, 1000, false, BlockDivision::skewed, 3);
  const Lists lists(world);
  for (size_t r = 0; r < 2; ++r) {
    ASSERT_EQ(lists.of[r].send.size(), 3u);
    EXPECT_EQ(lists.of[r].recv.size(), size_t{piece_count});
    for (size_t o = 0; o < 3; ++o) {
      EXPECT_EQ(lists.of[r].send[o].count, 1000u);
      const auto* const listed = static_cast<const std::byte*>(lists.of[r].send[o].ptr);
      EXPECT_EQ(Bytes(listed, listed + world.block()), world.sent(static_cast<int>(r), o));
    }
    world.receive(static_cast<int>(r), 0, world.folded(0));
    EXPECT_EQ(world.check(static_cast<int>(r)).wrong, 0u);
  }
}

TEST(Check, FindsTheLastElementOfALongBlock) {
  World world("all_gather_v", TUTTI_INT32, TUTTI_SUM, 3, 0, 100, false, BlockDivision::skewed);
  carry_v_variant_out(world);
  world.places[1].recv[4 * 300 - 1] ^= std::byte{1};
  EXPECT_EQ(world.check(1).wrong, 1u);
  EXPECT_THAT(world.check(1).sentence, HasSubstr("element 149 of block 2 of the result on rank 1"));
  EXPECT_THAT(world.check(1).sentence, HasSubstr("division skewed"));
}

TEST(Check, FindsASingleFlippedBitForEveryTypeAndOperator) {
  for (const ElementTypeInfo& type : element_types) {
    for (const OperatorInfo& op : operators) {
      if (!applies_to(op.op, type.type)) continue;
      World world("all_reduce", type.type, op.op, 3, 0, 1000, false);
      carry_out(world);
      for (const uint64_t element : {0u, 1u, 511u, 999u}) {
        for (const uint64_t byte : {uint64_t{0}, world.size - 1}) {
          std::byte& victim = world.places[1].recv[element * world.size + byte];
          victim ^= std::byte{0x40};
          const CheckFinding finding = world.check(1);
          EXPECT_EQ(finding.wrong, 1u) << type.name << " " << op.name;
          EXPECT_THAT(finding.sentence, HasSubstr("element " + std::to_string(element) + " of the result on rank 1"));
          victim ^= std::byte{0x40};
        }
      }
      EXPECT_EQ(world.check(1).wrong, 0u);
    }
  }
}

TEST(Check, CountsEveryElementOfAResultThatWasNeverWritten) {
  for (const ElementTypeInfo& type : element_types) {
    for (const char* name :
         {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all", "scatter", "send_recv"}) {
      const World world(name, type.type, TUTTI_SUM, 3, 0, 700, false);
      const uint64_t blocks = find_collective(name)->recv_blocks(3);
      EXPECT_EQ(world.check(1).wrong, 700 * blocks) << name << " " << type.name;
    }
  }
}

TEST(Check, FindsInPlaceResultsThatNobodyWrote) {
  for (const char* name : {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all", "scatter"}) {
    const World world(name, TUTTI_INT64, TUTTI_SUM, 3, 0, 700, true);
    EXPECT_GT(world.check(1).wrong, 690u) << name;
  }
}

TEST(Check, FindsBlocksThatWereExchanged) {
  World world("all_to_all", TUTTI_INT32, TUTTI_SUM, 3, 0, 100, false);
  carry_out(world);
  world.receive(2, 0, world.sent(1, 2));
  EXPECT_EQ(world.check(2).wrong, 100u);
  EXPECT_THAT(world.check(2).sentence, HasSubstr("block 0 of the result"));
}

TEST(Check, FindsAnInputThatChanged) {
  World world("all_reduce", TUTTI_FLOAT64, TUTTI_MAX, 2, 0, 1000, false);
  carry_out(world);
  world.places[0].send[8 * 999] ^= std::byte{1};
  EXPECT_EQ(world.check(0).wrong, 1u);
  EXPECT_THAT(world.check(0).sentence, HasSubstr("element 999 of the input afterwards"));
}

TEST(Check, FindsWritesToIgnoredBuffers) {
  World reduce("reduce", TUTTI_FLOAT32, TUTTI_SUM, 2, 1, 10, false);
  carry_out(reduce);
  EXPECT_EQ(reduce.check(0).wrong, 0u);
  reduce.places[0].recv[7] ^= std::byte{1};
  EXPECT_EQ(reduce.check(0).wrong, 1u);
  World broadcast("broadcast", TUTTI_FLOAT32, TUTTI_SUM, 2, 1, 10, false);
  carry_out(broadcast);
  broadcast.places[0].send[0] ^= std::byte{1};
  EXPECT_THAT(broadcast.check(0).sentence, HasSubstr("the ignored input"));
}

TEST(GuardedBuffer, NoticesWritesBesideIt) {
  GuardedBuffer buffer = GuardedBuffer::allocate(1000);
  EXPECT_EQ(buffer.trespasses(), 0u);
  buffer.data()[-1] = std::byte{0};
  EXPECT_EQ(buffer.trespasses(), 1u);
  buffer.data()[1000] = std::byte{0};
  EXPECT_EQ(buffer.trespasses(), 2u);
  buffer.guard(100);
  EXPECT_EQ(buffer.trespasses(), 0u);
  buffer.data()[100] = std::byte{0};
  EXPECT_EQ(buffer.trespasses(), 1u);
}

TEST(GuardedBuffer, HasAnAddressWithoutBytesAndNoneForTooMany) {
  EXPECT_NE(GuardedBuffer::allocate(0).data(), nullptr);
  EXPECT_EQ(GuardedBuffer::allocate(UINT64_MAX).data(), nullptr);
}

}  // namespace
}  // namespace tutti::perf
