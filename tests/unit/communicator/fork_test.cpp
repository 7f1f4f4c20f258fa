// An id whose maker forks: what the children do with a rendezvous that is their parent's.
#include <sys/wait.h>

#include "tests/unit/communicator/world.h"

namespace tutti::test {
namespace {

/// Joins in a forked child; its exit code is 0 if that was right and took less than `most_ns`.
pid_t join_in_child(const tutti_unique_id& id, int rank, int ranks, std::uint64_t most_ns) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  ::alarm(30);
  const std::uint64_t begin = now_ns();
  JoinRequest request = request_of(rank, ranks);
  request.id = &id;
  const auto joined = join(request);
  const std::uint64_t took = now_ns() - begin;
  if (!joined) std::fprintf(stderr, "rank %d: %s\n", rank, joined.status().text().c_str());
  if (took > most_ns) std::fprintf(stderr, "rank %d took %s\n", rank, duration_text(took).c_str());
  ::_exit(!joined ? 1 : took > most_ns ? 2 : 0);
}

int end_of(pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// A wait for a thread that does not exist in the child would take a second.
constexpr std::uint64_t kSoonNs = 500'000'000;

TEST(ForkOfAnIdsMaker, RanksMeetAtOnce) {
  const tutti_unique_id id = id_of_test();
  const pid_t children[] = {join_in_child(id, 0, 2, kSoonNs), join_in_child(id, 1, 2, kSoonNs)};
  for (const pid_t child : children) EXPECT_EQ(end_of(child), 0);
}

TEST(ForkOfAnIdsMaker, ARankAloneNeedsNoRoot) {
  const tutti_unique_id id = id_of_test();
  EXPECT_EQ(end_of(join_in_child(id, 0, 1, kSoonNs)), 0);
}

TEST(ForkOfAnIdsMaker, TheChildsOwnIdsServe) {
  const tutti_unique_id parents = id_of_test();
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(30);
    ::_exit(world_of(2).size() == 2 ? 0 : 1);
  }
  EXPECT_EQ(end_of(child), 0);
  const auto results = join_all(2, [&](int, JoinRequest& request) { request.id = &parents; });
  for (const auto& result : results) EXPECT_TRUE(result.ok()) << result.status().text();
}

}  // namespace
}  // namespace tutti::test
