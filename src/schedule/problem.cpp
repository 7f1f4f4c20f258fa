#include "src/schedule/problem.h"

#include <array>

namespace tutti {
namespace {

constexpr std::array<const char*, collective_count> names = {
    "all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter", "all_to_all", "gather", "scatter", "barrier"};

}  // namespace

const char* name_of(Collective collective) { return names[static_cast<std::size_t>(collective)]; }

std::uint32_t blocks_of(const Problem& problem, Buffer buffer, int rank) {
  const std::uint32_t all = static_cast<std::uint32_t>(problem.ranks);
  const bool in = buffer == Buffer::input;
  const bool root = rank == problem.root;
  switch (problem.collective) {
    case Collective::all_reduce:
      return 1;
    case Collective::reduce:
      return in || root ? 1 : 0;
    case Collective::broadcast:
      return !in || root ? 1 : 0;
    case Collective::all_gather:
      return in ? 1 : all;
    case Collective::reduce_scatter:
      return in ? all : 1;
    case Collective::all_to_all:
      return all;
    case Collective::gather:
      return in ? 1 : root ? all : 0;
    case Collective::scatter:
      return !in ? 1 : root ? all : 0;
    case Collective::barrier:
      return 0;
  }
  return 0;
}

Alias in_place_alias(const Problem& problem, int rank) {
  const std::uint32_t own = static_cast<std::uint32_t>(rank);
  const bool root = rank == problem.root;
  switch (problem.collective) {
    case Collective::all_reduce:
      return {true, false, 0, 0};
    case Collective::reduce:
      return {root, false, 0, 0};
    case Collective::broadcast:
      return {root, false, 0, 0};
    case Collective::all_gather:
      return {true, false, 0, own};
    case Collective::reduce_scatter:
      return {true, false, own, 0};
    case Collective::all_to_all:
      return {true, true, 0, 0};
    case Collective::gather:
      return {root, false, 0, own};
    case Collective::scatter:
      return {root, false, own, 0};
    case Collective::barrier:
      return {};
  }
  return {};
}

}  // namespace tutti
