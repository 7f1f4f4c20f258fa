// float32 all-reduce by Tutti and by the MPI that started this program, in the same processes, on the same buffers, turn
// and turn about. Usage: mpirun -n 2 --bind-to core tutti-beside-mpi [MAX_BYTES [ROUNDS]]
//
// Prints a line a size: both medians over the rounds of the slowest rank's time, and their ratio. Every result is checked.
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "include/tutti/mpi.hpp"
#include "include/tutti/tutti.h"

namespace {

/// Seconds an operation took on the slowest rank, a batch of `batch` of them timed together.
double slowest(int batch, const std::function<void()>& operation) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = MPI_Wtime();
  for (int i = 0; i < batch; ++i) operation();
  double mine = (MPI_Wtime() - start) / batch;
  double all = 0;
  MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return all;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

struct Sizes {
  std::size_t count;
  int batch;
  int rounds;
};

/// One size: rounds of both, interleaved. False where a result was wrong.
bool compare(tutti_comm* comm, const Sizes& at, int rank, int ranks) {
  std::vector<float> send(at.count, static_cast<float>(rank + 1)), recv(at.count);
  const float expected = static_cast<float>(ranks * (ranks + 1) / 2);
  bool right = true;
  std::vector<double> ours, theirs;
  const auto check = [&] {
    right = right && std::all_of(recv.begin(), recv.end(), [&](float x) { return x == expected; });
    std::fill(recv.begin(), recv.end(), 0.0F);
  };
  for (int round = 0; round < at.rounds; ++round) {
    ours.push_back(slowest(at.batch, [&] {
      right = right && tutti_all_reduce(send.data(), recv.data(), at.count, TUTTI_FLOAT32, TUTTI_SUM, comm, {}, nullptr) == TUTTI_SUCCESS;
    }));
    check();
    theirs.push_back(slowest(at.batch, [&] {
      MPI_Allreduce(send.data(), recv.data(), static_cast<int>(at.count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    }));
    check();
  }
  if (rank == 0) {
    std::printf("%12zu %12.2f %12.2f %8.2f\n", at.count * sizeof(float), median(ours) * 1e6, median(theirs) * 1e6,
                median(ours) / median(theirs));
    std::fflush(stdout);
  }
  return right;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const std::size_t most = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : std::size_t{64} << 20;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 21;
  tutti_comm* comm = nullptr;
  if (tutti::comm_create_from_mpi(&comm, MPI_COMM_WORLD) != TUTTI_SUCCESS) {
    tutti_error error{};
    error.size = sizeof error;
    tutti_error_get(nullptr, &error);
    std::fprintf(stderr, "%s. %s\n", error.message, error.remedy);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  if (rank == 0) std::printf("%12s %12s %12s %8s\n", "bytes", "tutti us", "mpi us", "ratio");
  bool right = true;
  for (std::size_t bytes = 8; bytes <= most; bytes *= 2) {
    const int batch = static_cast<int>(std::clamp<std::size_t>((std::size_t{1} << 22) / bytes, 1, 1000));
    right = compare(comm, {bytes / sizeof(float), batch, rounds}, rank, ranks) && right;
  }
  tutti_comm_destroy(comm);
  MPI_Finalize();
  if (!right) std::fprintf(stderr, "a result was wrong\n");
  return right ? 0 : 3;
}
