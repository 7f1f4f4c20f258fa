// Kernels of the driver's own tests, for the host (libstandin_kernels.so) and for GPUs: one source.
#include "src/cuda/device/group.h"
#include "src/cuda/device/order.h"
#include "tests/standin/test_kernels.h"

namespace standin {

using tutti::device::Group;
using Wide = tutti::device::Word64;

/// Elements are dealt out one by one to all threads of the grid.
TUTTI_DEVICE void add(Group& group, const AddParameters& given) {
  const Wide stride = Wide{group.blocks()} * group.size();
  for (Wide i = Wide{group.block()} * group.size() + group.rank(); i < given.count; i += stride) {
    given.out[i] = given.a[i] + given.b[i];
  }
}

TUTTI_DEVICE void copy(Group& group, const CopyParameters& given) {
  const Wide stride = Wide{group.blocks()} * group.size();
  for (Wide i = Wide{group.block()} * group.size() + group.rank(); i < given.bytes; i += stride)
    given.to[i] = given.from[i];
}

/// Until the word has the value.
TUTTI_DEVICE void spin(Group& group, const WordParameters& given) {
  while (tutti::device::poll(given.word) != given.value) group.pause();
}

/// Every block adds one, and stays until so many have.
TUTTI_DEVICE void count_blocks(Group& group, const WordParameters& given) {
  if (group.rank() == 0) tutti::device::count_in(given.word);
  while (tutti::device::poll(given.word) < given.value) group.pause();
}

/// Each block writes its number into the next place.
TUTTI_DEVICE void order(Group& group, const OrderParameters& given) {
  if (group.rank() == 0) given.order[tutti::device::count_in(given.next)] = group.block();
}

/// Every thread puts its number into the block's storage, all add up what lies there, and the sums are compared.
TUTTI_DEVICE void block_sum(Group& group, const BlockSumParameters& given) {
  auto* const mine = static_cast<unsigned long long*>(group.shared());
  unsigned long long total = 0;
  for (unsigned long long round = 0; round < given.rounds; ++round) {
    mine[group.rank()] = group.rank() + round;
    group.barrier();
    unsigned long long sum = 0;
    for (unsigned i = 0; i < group.size(); ++i) sum += mine[i];
    const unsigned long long agreed = group.broadcast(sum, static_cast<unsigned>(round % group.size()));
    if (group.any(agreed != sum) || !group.any(group.rank() == 0)) return;
    total += agreed;
  }
  if (group.rank() == 0) given.out[group.block()] = total;
}

/// As block_sum's first step without the barrier: the thread sanitizer is to see it with more threads than one.
TUTTI_DEVICE void broken_sum(Group& group, const BlockSumParameters& given) {
  auto* const mine = static_cast<unsigned long long*>(group.shared());
  mine[group.rank()] = group.rank();
  unsigned long long sum = 0;
  for (unsigned i = 0; i < group.size(); ++i) sum += mine[i];
  group.barrier();
  if (group.rank() == 0) given.out[group.block()] = sum;
}

TUTTI_DEVICE void store(Group& group, const WordParameters& given) {
  if (group.rank() == 0) *given.word = given.value;
}

/// Block 0 sends lines, block 1 receives them and adds up their data.
TUTTI_DEVICE void lines(Group& group, const LineParameters& given) {
  auto* const all = static_cast<Wide*>(given.lines);
  const Wide tag = Wide{given.tag} << 32;
  for (unsigned i = group.rank(); i < given.count; i += group.size()) {
    if (group.block() == 0) {
      tutti::device::write_line(all + 2 * i, tag | (2 * i), tag | (2 * i + 1));
      continue;
    }
    Wide first = 0;
    Wide second = 0;
    for (tutti::device::read_line(all + 2 * i, first, second); first >> 32 != given.tag || second >> 32 != given.tag;
         tutti::device::read_line(all + 2 * i, first, second)) {
      group.pause();
    }
    given.out[i] = static_cast<unsigned>(first) + static_cast<unsigned>(second);
  }
}

TUTTI_KERNEL(add_kernel, AddParameters, add)
TUTTI_KERNEL(copy_kernel, CopyParameters, copy)
TUTTI_KERNEL(spin_kernel, WordParameters, spin)
TUTTI_KERNEL(count_blocks_kernel, WordParameters, count_blocks)
TUTTI_KERNEL(order_kernel, OrderParameters, order)
TUTTI_KERNEL(block_sum_kernel, BlockSumParameters, block_sum)
TUTTI_KERNEL(broken_sum_kernel, BlockSumParameters, broken_sum)
TUTTI_KERNEL(store_kernel, WordParameters, store)
TUTTI_KERNEL(lines_kernel, LineParameters, lines)

}  // namespace standin
