// A communicator from an MPI one. Header-only, so that libtutti links no MPI; include it where mpi.h is at hand.
#ifndef TUTTI_MPI_HPP_
#define TUTTI_MPI_HPP_

#include <mpi.h>
#include <time.h>

#include <climits>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "tutti.h"

namespace tutti {
namespace detail {

/// tutti_bootstrap.allgather over the MPI_Comm behind ctx: 0, or 1 where MPI failed, 2 after timeout_ns, 3 without memory.
inline int mpi_allgather(void* ctx, const void* in, size_t n, void* out, uint64_t timeout_ns) {
  const auto now = [] {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<uint64_t>(t.tv_sec) * 1000000000u + static_cast<uint64_t>(t.tv_nsec);
  };
  struct Exchange {
    std::vector<unsigned char> mine;
    std::vector<unsigned char> all;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  const MPI_Comm mpi = *static_cast<MPI_Comm*>(ctx);
  int ranks = 0;
  if (n > INT_MAX || MPI_Comm_size(mpi, &ranks) != MPI_SUCCESS) return 1;
  std::unique_ptr<Exchange> exchange;
  try {
    exchange = std::make_unique<Exchange>();
    exchange->mine.assign(static_cast<const unsigned char*>(in), static_cast<const unsigned char*>(in) + n);
    exchange->all.resize(n * static_cast<size_t>(ranks));
  } catch (const std::bad_alloc&) {
    return 3;
  }
  const uint64_t begin = now();
  const int bytes = static_cast<int>(n);
  if (MPI_Iallgather(exchange->mine.data(), bytes, MPI_BYTE, exchange->all.data(), bytes, MPI_BYTE, mpi,
                     &exchange->request) != MPI_SUCCESS) {
    return 1;
  }
  for (int done = 0; done == 0;) {
    const bool failed = MPI_Test(&exchange->request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS;
    if (!failed && done != 0) break;
    if (failed || now() - begin >= timeout_ns) {
      // A collective can be neither cancelled nor freed (MPI 3.1, 5.12): the late ranks' bytes may still come, into memory
      // that stays.
      static_cast<void>(exchange.release());
      return failed ? 1 : 2;
    }
    const timespec nap = {0, 100000};
    nanosleep(&nap, nullptr);
  }
  if (!exchange->all.empty()) std::memcpy(out, exchange->all.data(), exchange->all.size());
  return 0;
}

}  // namespace detail

/// Joins the ranks of `mpi`, in its order, exchanging addresses by MPI_Iallgather during this call. Collective over `mpi`,
/// which stays the caller's; after a failure it may still carry this exchange, and should be freed without further use.
/// Errors: those of tutti_comm_create_bootstrap, TUTTI_REMOTE_ERROR where ranks have not called within the connect timeout;
/// TUTTI_INVALID_ARGUMENT for MPI_COMM_NULL.
inline tutti_status comm_create_from_mpi(tutti_comm** comm, MPI_Comm mpi, const tutti_config* config = nullptr) {
  if (comm == nullptr || mpi == MPI_COMM_NULL) return TUTTI_INVALID_ARGUMENT;
  int rank = 0;
  int ranks = 0;
  MPI_Comm_rank(mpi, &rank);
  MPI_Comm_size(mpi, &ranks);
  tutti_bootstrap bootstrap{};
  bootstrap.size = sizeof bootstrap;
  bootstrap.ctx = &mpi;
  bootstrap.allgather = &detail::mpi_allgather;
  return tutti_comm_create_bootstrap(comm, ranks, rank, &bootstrap, config);
}

}  // namespace tutti

#endif  // TUTTI_MPI_HPP_
