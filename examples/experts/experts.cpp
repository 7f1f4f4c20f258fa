// A mixture of experts: each rank has tokens, and each rank is an expert. A token travels to the expert that its router
// chose, is worked on there, and comes back. Some experts are popular and one has nothing to do, so blocks differ in
// length.
//
//     rank 0: tokens for expert  0 │ 1 │ 2 2 2 2        all_to_all_v there, and back by the same lists
//     rank 1: tokens for expert  0 │ 1 1 1 │ 2 2
//
// Start it with mpirun, srun, torchrun, or by hand as examples/hello. It checks every token that comes back, and exits with
// 1 where one is wrong or missing.
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <stdexcept>
#include <tutti/tutti.hpp>
#include <vector>

namespace {

struct Token {
  std::int32_t owner;  ///< rank
  std::int32_t index;  ///< among the owner's
  double value;
};

}  // namespace

/// No operator touches a token, so it may travel as bytes.
template <>
inline constexpr bool tutti::is_opaque<Token> = true;

namespace {

/// A list for each rank.
using Lists = std::vector<std::vector<Token>>;

constexpr int tokens = 500;

/// The router: more for the last experts, and nothing for expert 0 where there are others.
int expert_of(int owner, int index, int experts) {
  if (experts == 1) return 0;
  const int dice = (owner * 7919 + index * 104729) % (experts * experts);
  int expert = 1;
  while (expert + 1 < experts && dice >= expert * expert) ++expert;
  return expert;
}

double worked_on(double value, int expert) { return value * value + expert; }

/// This rank's tokens, by the expert that they go to.
Lists routed(int rank, int experts) {
  Lists lists(static_cast<std::size_t>(experts));
  for (int i = 0; i < tokens; ++i) {
    const int expert = expert_of(rank, i, experts);
    lists[static_cast<std::size_t>(expert)].push_back({rank, i, rank + i * 0.5});
  }
  return lists;
}

/// Makes room for what the other ranks will send: they say how many tokens that is.
Lists room_for(const tutti::Communicator& comm, const Lists& send) {
  std::vector<std::uint64_t> there, here(send.size());
  for (const std::vector<Token>& list : send) there.push_back(list.size());
  comm.all_to_all(there, here);
  Lists recv;
  for (const std::uint64_t count : here) recv.emplace_back(count);
  return recv;
}

/// How many came back right.
int count_right(const Lists& back, int rank) {
  std::vector<bool> seen(tokens);
  int right = 0;
  for (std::size_t expert = 0; expert < back.size(); ++expert) {
    for (const Token& token : back[expert]) {
      const double expected = worked_on(rank + token.index * 0.5, static_cast<int>(expert));
      if (token.owner != rank || token.index < 0 || token.index >= tokens || token.value != expected) continue;
      right += seen[static_cast<std::size_t>(token.index)] ? 0 : 1;
      seen[static_cast<std::size_t>(token.index)] = true;
    }
  }
  return right;
}

}  // namespace

int main() {
  try {
    const tutti::Communicator comm("env://");
    Lists own = routed(comm.rank(), comm.size());
    Lists mine_to_do = room_for(comm, own);

    comm.all_to_all_v(own, mine_to_do);  // there
    for (std::vector<Token>& list : mine_to_do) {
      for (Token& token : list) token.value = worked_on(token.value, comm.rank());
    }
    comm.all_to_all_v(mine_to_do, own);  // and back, each to where it came from

    std::vector<int> right = {count_right(own, comm.rank())};
    comm.all_reduce(right);
    if (right[0] != tokens * comm.size()) {
      std::fprintf(stderr, "%d of %d tokens came back right.\n", right[0], tokens * comm.size());
      return 1;
    }
    if (comm.rank() == 0) std::printf("%d ranks, all %d tokens came back right\n", comm.size(), right[0]);
  } catch (const tutti::Failure& failure) {
    std::fprintf(stderr, "%s. %s\n", failure.what(), failure.remedy().c_str());
    return 1;
  }
}
