// A communicator from an MPI one. Header-only, so that libtutti links no MPI; include it where mpi.h is at hand.
#ifndef TUTTI_MPI_HPP_
#define TUTTI_MPI_HPP_

#include <mpi.h>

#include <climits>

#include "tutti.h"

namespace tutti {

/// Joins the ranks of `mpi`, in its order, exchanging addresses by MPI_Allgather during this call. Collective over `mpi`,
/// which stays the caller's. Errors: those of tutti_comm_create_bootstrap; TUTTI_INVALID_ARGUMENT for MPI_COMM_NULL.
inline tutti_status comm_create_from_mpi(tutti_comm** comm, MPI_Comm mpi, const tutti_config* config = nullptr) {
  if (comm == nullptr || mpi == MPI_COMM_NULL) return TUTTI_INVALID_ARGUMENT;
  int rank = 0;
  int ranks = 0;
  MPI_Comm_rank(mpi, &rank);
  MPI_Comm_size(mpi, &ranks);
  tutti_bootstrap bootstrap{};
  bootstrap.size = sizeof bootstrap;
  bootstrap.ctx = &mpi;
  bootstrap.allgather = [](void* ctx, const void* in, size_t n, void* out, uint64_t) {
    if (n > INT_MAX) return 1;
    const int bytes = static_cast<int>(n);
    const MPI_Comm over = *static_cast<MPI_Comm*>(ctx);
    return MPI_Allgather(in, bytes, MPI_BYTE, out, bytes, MPI_BYTE, over) == MPI_SUCCESS ? 0 : 1;
  };
  return tutti_comm_create_bootstrap(comm, ranks, rank, &bootstrap, config);
}

}  // namespace tutti

#endif  // TUTTI_MPI_HPP_
