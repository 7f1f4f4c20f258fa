// Every rank contributes its number; afterwards all have the sum. Start it with mpirun, srun, torchrun, or by hand with
// TUTTI_RANK, TUTTI_RANKS and TUTTI_COMM_ID.
#include <cstdio>
#include <numeric>
#include <tutti/tutti.hpp>
#include <vector>

int main() {
  try {
    tutti::Communicator comm("env://");
    std::vector<float> gradients(1000);
    std::iota(gradients.begin(), gradients.end(), static_cast<float>(comm.rank()));

    comm.all_reduce(gradients);  // in place; every rank now has the sum

    if (comm.rank() == 0) std::printf("%d ranks, element 7 is %g\n", comm.size(), static_cast<double>(gradients[7]));
  } catch (const tutti::Failure& failure) {
    std::fprintf(stderr, "%s. %s\n", failure.what(), failure.remedy().c_str());
    return 1;
  }
}
