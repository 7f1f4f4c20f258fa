#include "perf/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "src/tables/names.h"

namespace tutti::perf {
namespace {

constexpr uint64_t kScratch = 32768;  // bytes, or an element
constexpr std::byte kUntouched{0xc3};

void expect(const CheckedOperation& operation, const Source& source, uint64_t from, uint64_t n, std::byte* out) {
  if (source.fold) return fill_folded(operation.pattern, source.index + from, n, out);
  fill_input(operation.pattern, source.operand, source.index + from, n, out);
}

CheckFinding check_untouched(const CheckedOperation& operation, const std::byte* data, uint64_t bytes, const char* what) {
  CheckFinding finding;
  for (uint64_t i = 0; i < bytes; ++i) {
    if (data[i] == kUntouched) continue;
    if (finding.wrong == 0) {
      finding.sentence = fmt::format("{} wrote to byte {} of {} on rank {}, which must be left alone",
                                     operation.collective->name, i, what, operation.rank);
    }
    ++finding.wrong;
  }
  return finding;
}

DividedCall divided(const CheckedOperation& operation) {
  return {operation.collective, operation.division, operation.pattern.ranks, operation.count};
}

// Each of this rank's operands, from its number `first` on: where it comes from, its place in bytes, its elements.
template <class Take>
void each_operand(const CheckedOperation& operation, int first, const Take& take) {
  const int operands = operation.pattern.operands;
  const uint64_t count = operation.send_count() / static_cast<uint64_t>(operands);
  for (int o = first; o < operands; ++o) {
    const Source source = {false, operation.rank * operands + o, 0};
    take(source, static_cast<uint64_t>(o) * count * tutti_type_size(operation.pattern.type), count);
  }
}

// Of a block of the result, in elements.
struct Extent {
  uint64_t begin;
  uint64_t count;
};
Extent extent_of(const CheckedOperation& operation, uint64_t block) {
  if (!operation.collective->has_recv_blocks()) return {0, operation.recv_count()};
  const uint64_t begin = operation.begin_of(operation.rank, block);
  return {begin, operation.begin_of(operation.rank, block + 1) - begin};
}

// A buffer in pieces of these lengths; the last has what is left over, too.
std::vector<tutti_block> pieces_of(const CheckedOperation& operation, std::byte* base) {
  const uint64_t size = tutti_type_size(operation.pattern.type);
  std::vector<tutti_block> pieces;
  for (int p = 0; p < piece_count; ++p) {
    const auto begin = [&](int piece) {
      return piece == piece_count ? operation.count
                                  : block_begin(operation.division, operation.count / piece_count, piece_count, piece);
    };
    pieces.push_back({base + begin(p) * size, begin(p + 1) - begin(p)});
  }
  return pieces;
}

}  // namespace

void CheckFinding::add(const CheckFinding& more) {
  if (wrong == 0) sentence = more.sentence;
  wrong += more.wrong;
}

uint64_t CheckedOperation::send_bytes() const { return send_count() * tutti_type_size(pattern.type); }

uint64_t CheckedOperation::recv_bytes() const { return recv_count() * tutti_type_size(pattern.type); }

uint64_t CheckedOperation::send_count() const {
  const uint64_t each = collective->has_send_blocks() ? begin_of(rank, static_cast<uint64_t>(pattern.ranks)) : own_count();
  return each * static_cast<uint64_t>(pattern.operands);
}

uint64_t CheckedOperation::recv_count() const {
  return collective->has_recv_blocks() ? begin_of(rank, static_cast<uint64_t>(pattern.ranks)) : own_count();
}

uint64_t CheckedOperation::own_count() const { return collective->in_pieces ? count : divided(*this).own_count(rank); }

uint64_t CheckedOperation::begin_of(int of, uint64_t block) const { return divided(*this).begin_of(of, block); }

Source CheckedOperation::source_of(uint64_t block) const {
  const BlockOrigin from = collective->origin(rank, pattern.ranks, root, static_cast<uint32_t>(block));
  return {from.fold, from.rank, begin_of(from.rank, from.block)};
}

Places lay_out(const CheckedOperation& operation, std::byte* send, std::byte* recv) {
  if (!operation.in_place) return {send, recv};
  const BenchedCollective& collective = *operation.collective;
  const bool sends = collective.sends(operation.rank, operation.root);
  const bool receives = collective.receives(operation.rank, operation.root);
  const uint64_t before = collective.takes_lists ? operation.begin_of(operation.rank, static_cast<uint64_t>(operation.rank))
                                                 : operation.count * static_cast<uint64_t>(operation.rank);
  const uint64_t own = before * tutti_type_size(operation.pattern.type);
  if (collective.has_send_blocks() == collective.has_recv_blocks()) return {recv, recv};
  // A gather's other ranks have nothing but a block to send, and a scatter's nothing but one to receive.
  if (collective.has_recv_blocks()) return receives ? Places{recv + own, recv} : Places{recv, nullptr};
  return sends ? Places{recv, recv + own} : Places{nullptr, recv};
}

BlockLists block_lists(const CheckedOperation& operation, std::byte* send, std::byte* recv) {
  const BenchedCollective& collective = *operation.collective;
  if (collective.in_pieces) {
    BlockLists lists = {{}, pieces_of(operation, recv)};
    if (operation.pattern.operands > 1) {
      each_operand(operation, 0,
                   [&](const Source&, uint64_t place, uint64_t count) { lists.send.push_back({send + place, count}); });
    } else if (!operation.in_place) {
      lists.send = pieces_of(operation, send);
    }
    return lists;
  }
  const uint64_t size = tutti_type_size(operation.pattern.type);
  const auto list = [&](std::byte* base) {
    std::vector<tutti_block> blocks;
    for (uint64_t b = 0; b < static_cast<uint64_t>(operation.pattern.ranks); ++b) {
      const uint64_t begin = operation.begin_of(operation.rank, b);
      blocks.push_back({base + begin * size, operation.begin_of(operation.rank, b + 1) - begin});
    }
    return blocks;
  };
  BlockLists lists;
  lists.own = operation.own_count();
  if (collective.has_send_blocks() && collective.sends(operation.rank, operation.root)) lists.send = list(send);
  if (collective.has_recv_blocks() && collective.receives(operation.rank, operation.root)) lists.recv = list(recv);
  return lists;
}

void fill_send(const CheckedOperation& operation, const Places& places) {
  if (operation.collective->sends(operation.rank, operation.root)) {
    each_operand(operation, 0, [&](const Source& source, uint64_t place, uint64_t count) {
      fill_input(operation.pattern, source.operand, 0, count, places.send + place);
    });
  } else if (!operation.in_place) {
    std::fill_n(places.send, operation.send_bytes(), kUntouched);
  }
}

void poison_result(const CheckedOperation& operation, const Places& places) {
  const BenchedCollective& collective = *operation.collective;
  if (places.recv == nullptr) return;
  if (!collective.receives(operation.rank, operation.root)) {
    std::fill_n(places.recv, operation.recv_bytes(), kUntouched);
    return;
  }
  const uint64_t size = tutti_type_size(operation.pattern.type);
  const uint64_t blocks = collective.recv_blocks(operation.pattern.ranks);
  for (uint64_t block = 0; block < blocks; ++block) {
    const Extent extent = extent_of(operation, block);
    std::byte* out = places.recv + extent.begin * size;
    expect(operation, operation.source_of(block), 0, extent.count, out);
    for (uint64_t i = 0; i < extent.count * size; ++i) out[i] = ~out[i];
  }
}

CheckFinding check_block(const CheckedOperation& operation, const Source& source, uint64_t count, const std::byte* data,
                         const std::string& what) {
  const tutti_type type = operation.pattern.type;
  const uint64_t size = tutti_type_size(type);
  const uint64_t most = std::min(count, std::max<uint64_t>(1, kScratch / size));
  std::vector<std::byte> scratch(most * size);
  CheckFinding finding;
  for (uint64_t from = 0; from < count; from += most) {
    const uint64_t n = std::min(most, count - from);
    expect(operation, source, from, n, scratch.data());
    const std::byte* got = data + from * size;
    if (std::memcmp(got, scratch.data(), n * size) == 0) continue;
    for (uint64_t k = 0; k < n; ++k) {
      const std::byte* should = scratch.data() + k * size;
      if (std::memcmp(got + k * size, should, size) == 0) continue;
      if (finding.wrong == 0) {
        finding.sentence =
            fmt::format("element {} of {} on rank {} is {} where {} is right ({} of {} {} elements{})", from + k, what,
                        operation.rank, as_text(type, got + k * size), as_text(type, should), operation.collective->name,
                        operation.count, text_of(type),
                        operation.division == BlockDivision::even
                            ? ""
                            : fmt::format("{}, division {}", operation.collective->in_pieces ? "" : " on average",
                                          name_of(operation.division)));
      }
      ++finding.wrong;
    }
  }
  return finding;
}

CheckFinding check_result(const CheckedOperation& operation, const Places& places) {
  const BenchedCollective& collective = *operation.collective;
  const int ranks = operation.pattern.ranks;
  const uint64_t size = tutti_type_size(operation.pattern.type);
  CheckFinding finding;
  if (collective.receives(operation.rank, operation.root)) {
    for (uint64_t block = 0; block < collective.recv_blocks(ranks); ++block) {
      const Extent extent = extent_of(operation, block);
      const std::string what =
          collective.recv_blocks(ranks) > 1 ? fmt::format("block {} of the result", block) : "the result";
      finding.add(
          check_block(operation, operation.source_of(block), extent.count, places.recv + extent.begin * size, what));
    }
  } else if (!operation.in_place) {
    finding.add(check_untouched(operation, places.recv, operation.recv_bytes(), "the ignored result"));
  }
  if (collective.sends(operation.rank, operation.root)) {
    // In place the result is in the first.
    each_operand(operation, operation.in_place ? 1 : 0, [&](const Source& source, uint64_t place, uint64_t count) {
      const std::string what =
          operation.pattern.operands == 1 ? "the input afterwards" : fmt::format("operand {} afterwards", source.operand);
      finding.add(check_block(operation, source, count, places.send + place, what));
    });
  } else if (!operation.in_place) {
    finding.add(check_untouched(operation, places.send, operation.send_bytes(), "the ignored input"));
  }
  return finding;
}

}  // namespace tutti::perf
