// Joining over MPI, run by mpirun on two ranks: both at once, then with one that comes when the other has given up.
#include <unistd.h>

#include <chrono>
#include <cstdio>

#include "include/tutti/mpi.hpp"

namespace {

int failures = 0;

void expect(bool holds, int rank, const char* what) {
  if (holds) return;
  ++failures;
  tutti_error error{};
  error.size = sizeof error;
  tutti_error_get(nullptr, &error);
  std::fprintf(stderr, "rank %d: %s: %s\n", rank, what, error.message);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm other = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &other);

  tutti_comm* comm = nullptr;
  int sum = 1;
  expect(tutti::comm_create_from_mpi(&comm, MPI_COMM_WORLD) == TUTTI_SUCCESS, rank, "joining");
  expect(tutti_all_reduce(&sum, &sum, 1, TUTTI_INT32, TUTTI_SUM, comm, {}, nullptr) == TUTTI_SUCCESS && sum == 2, rank,
         "summing");
  tutti_comm_destroy(comm);

  tutti_config config = TUTTI_CONFIG_INIT;
  config.connect_timeout_ns = 500'000'000;
  if (rank == 1) sleep(2);
  const auto begin = std::chrono::steady_clock::now();
  expect(tutti::comm_create_from_mpi(&comm, other, &config) != TUTTI_SUCCESS, rank, "joining with a late rank");
  const auto took = std::chrono::steady_clock::now() - begin;
  if (rank == 0) expect(took < std::chrono::milliseconds(1900), rank, "the limit of 500 ms, before the other comes");
  expect(comm == nullptr, rank, "no handle after a failure");

  MPI_Barrier(MPI_COMM_WORLD);  // the late rank's bytes arrive meanwhile, in memory that is still there
  MPI_Finalize();
  return failures;
}
