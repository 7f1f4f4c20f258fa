// Any MPI under comparison. Built by perf/compare with each MPI's own mpicxx; the settings come with its mpirun.
#include <mpi.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <iterator>
#include <utility>
#include <vector>

#include "perf/peers/contender.h"

namespace tutti::perf {
namespace {

#ifdef MPIX_C_FLOAT16
const MPI_Datatype kFloat16 = MPIX_C_FLOAT16;
#else
const MPI_Datatype kFloat16 = MPI_DATATYPE_NULL;
#endif
#ifdef MPIX_C_BF16
const MPI_Datatype kBfloat16 = MPIX_C_BF16;
#else
const MPI_Datatype kBfloat16 = MPI_DATATYPE_NULL;
#endif

// What MPI calls our types and operators.
const std::pair<tutti_type, MPI_Datatype> kTypes[] = {
    {TUTTI_INT8, MPI_INT8_T},
    {TUTTI_UINT8, MPI_UINT8_T},
    {TUTTI_INT16, MPI_INT16_T},
    {TUTTI_UINT16, MPI_UINT16_T},
    {TUTTI_INT32, MPI_INT32_T},
    {TUTTI_UINT32, MPI_UINT32_T},
    {TUTTI_INT64, MPI_INT64_T},
    {TUTTI_UINT64, MPI_UINT64_T},
    {TUTTI_FLOAT16, kFloat16},
    {TUTTI_BFLOAT16, kBfloat16},
    {TUTTI_FLOAT32, MPI_FLOAT},
    {TUTTI_FLOAT64, MPI_DOUBLE},

    {TUTTI_COMPLEX64, MPI_C_FLOAT_COMPLEX},
    {TUTTI_COMPLEX128, MPI_C_DOUBLE_COMPLEX},
};
const std::pair<tutti_op, MPI_Op> kOps[] = {
    {TUTTI_SUM, MPI_SUM},          {TUTTI_PROD, MPI_PROD},        {TUTTI_MIN, MPI_MIN},
    {TUTTI_MAX, MPI_MAX},          {TUTTI_BITWISE_AND, MPI_BAND}, {TUTTI_BITWISE_OR, MPI_BOR},
    {TUTTI_BITWISE_XOR, MPI_BXOR}, {TUTTI_LOGICAL_AND, MPI_LAND}, {TUTTI_LOGICAL_OR, MPI_LOR},
    {TUTTI_LOGICAL_XOR, MPI_LXOR},
};

template <class Ours, class Mpis, size_t rows>
Mpis in_mpi(const std::pair<Ours, Mpis> (&table)[rows], Ours ours, Mpis lacking) {
  const auto* row = std::find_if(std::begin(table), std::end(table), [&](const auto& r) { return r.first == ours; });
  return row != std::end(table) ? row->second : lacking;
}

struct Call {
  const void* send;
  void* recv;
  int count;
  MPI_Datatype type;
  MPI_Op op;
  int root;
  int rank;
  int ranks;
  const int* counts;  ///< of blocks of any lengths: this rank has as many elements for each other as that has for it
  const int* begins;
};

int all_reduce(const Call& c) { return MPI_Allreduce(c.send, c.recv, c.count, c.type, c.op, MPI_COMM_WORLD); }
int reduce(const Call& c) { return MPI_Reduce(c.send, c.recv, c.count, c.type, c.op, c.root, MPI_COMM_WORLD); }
int broadcast(const Call& c) { return MPI_Bcast(c.recv, c.count, c.type, c.root, MPI_COMM_WORLD); }
int all_gather(const Call& c) { return MPI_Allgather(c.send, c.count, c.type, c.recv, c.count, c.type, MPI_COMM_WORLD); }
int reduce_scatter(const Call& c) {
  return MPI_Reduce_scatter_block(c.send, c.recv, c.count, c.type, c.op, MPI_COMM_WORLD);
}
int all_to_all(const Call& c) { return MPI_Alltoall(c.send, c.count, c.type, c.recv, c.count, c.type, MPI_COMM_WORLD); }
int gather(const Call& c) { return MPI_Gather(c.send, c.count, c.type, c.recv, c.count, c.type, c.root, MPI_COMM_WORLD); }
int scatter(const Call& c) { return MPI_Scatter(c.send, c.count, c.type, c.recv, c.count, c.type, c.root, MPI_COMM_WORLD); }
int send_recv(const Call& c) {
  return MPI_Sendrecv(c.send, c.count, c.type, (c.rank + 1) % c.ranks, 0, c.recv, c.count, c.type,
                      (c.rank + c.ranks - 1) % c.ranks, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

int all_gather_v(const Call& c) {
  return MPI_Allgatherv(c.send, c.count, c.type, c.recv, c.counts, c.begins, c.type, MPI_COMM_WORLD);
}
int reduce_scatter_v(const Call& c) { return MPI_Reduce_scatter(c.send, c.recv, c.counts, c.type, c.op, MPI_COMM_WORLD); }
int all_to_all_v(const Call& c) {
  return MPI_Alltoallv(c.send, c.counts, c.begins, c.type, c.recv, c.counts, c.begins, c.type, MPI_COMM_WORLD);
}
int gather_v(const Call& c) {
  return MPI_Gatherv(c.send, c.count, c.type, c.recv, c.counts, c.begins, c.type, c.root, MPI_COMM_WORLD);
}
int scatter_v(const Call& c) {
  return MPI_Scatterv(c.send, c.counts, c.begins, c.type, c.recv, c.count, c.type, c.root, MPI_COMM_WORLD);
}
int barrier(const Call&) { return MPI_Barrier(MPI_COMM_WORLD); }

struct Verb {
  const char* name;
  int (*call)(const Call& call);
  bool in_place;  ///< MPI_IN_PLACE means the same as in place does here
};
constexpr Verb kVerbs[] = {
    {"all_reduce", all_reduce, true},
    {"reduce", reduce, false},
    {"broadcast", broadcast, true},
    {"all_gather", all_gather, true},
    {"reduce_scatter", reduce_scatter, false},
    {"all_to_all", all_to_all, true},
    {"gather", gather, false},
    {"scatter", scatter, false},
    {"send_recv", send_recv, false},
    {"all_gather_v", all_gather_v, false},
    {"reduce_scatter_v", reduce_scatter_v, false},
    {"all_to_all_v", all_to_all_v, false},
    {"gather_v", gather_v, false},
    {"scatter_v", scatter_v, false},
    {"barrier", barrier, false},
};

class Mpi : public Contender {
 public:
  ~Mpi() override {
    int finalized = 0;
    if (started_ && MPI_Finalized(&finalized) == MPI_SUCCESS && finalized == 0) MPI_Finalize();
  }

  std::string start(const ContenderPlace& place) override {
    place_ = place;
    if (MPI_Init(nullptr, nullptr) != MPI_SUCCESS) return "MPI_Init failed";
    started_ = true;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int rank = 0;
    int ranks = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    return rank == place.rank && ranks == place.ranks ? "" : "the launcher and MPI_Init disagree on rank or size";
  }

  std::string version() override {
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;
    MPI_Get_library_version(text, &length);
    const std::string whole(text);  // up to its NUL, which some count as well
    return whole.substr(0, whole.find('\n'));
  }

  std::string lacks(const CheckedOperation& operation) override {
    verb_ = nullptr;
    for (const Verb& verb : kVerbs) {
      if (std::strcmp(verb.name, operation.collective->name) == 0) verb_ = &verb;
    }
    if (verb_ == nullptr) return "MPI has no such collective";
    if (operation.in_place && !verb_->in_place) return "MPI's in place means something else here";
    // MPI's broadcast has one buffer: it can only be in place.
    if (verb_->call == broadcast && !operation.in_place) return "MPI's broadcast is in place";
    type_ = in_mpi(kTypes, operation.pattern.type, MPI_DATATYPE_NULL);
    op_ = in_mpi(kOps, operation.pattern.op, MPI_OP_NULL);
    if (type_ == MPI_DATATYPE_NULL) return "it has no such type";
    if (operation.collective->reduces() && op_ == MPI_OP_NULL) return "MPI has no such operator";
    const uint64_t blocks = operation.collective->takes_lists ? static_cast<uint64_t>(place_.ranks) : 1;
    return operation.count > INT_MAX / blocks ? "its counts are ints" : "";
  }

  // Of a v-variant, whose counts and displacements hold for the buffers of every slot.
  std::string prepare(const CheckedOperation& operation, const Places& first, uint64_t, uint64_t) override {
    own_ = static_cast<int>(first.lists != nullptr ? first.lists->own : operation.count);
    counts_.clear();
    begins_.clear();
    if (first.lists == nullptr) return "";
    for (const tutti_block& block : first.lists->send.empty() ? first.lists->recv : first.lists->send) {
      begins_.push_back(counts_.empty() ? 0 : begins_.back() + counts_.back());
      counts_.push_back(static_cast<int>(block.count));
    }
    return "";
  }

  bool run(const CheckedOperation& operation, const Places& places) override {
    const void* send = operation.in_place && verb_->call != broadcast ? MPI_IN_PLACE : places.send;
    return verb_->call({send, places.recv, own_, type_, op_, operation.root, place_.rank, place_.ranks, counts_.data(),
                        begins_.data()}) == MPI_SUCCESS;
  }

 private:
  ContenderPlace place_;
  bool started_ = false;
  const Verb* verb_ = nullptr;
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
  MPI_Op op_ = MPI_OP_NULL;
  int own_ = 0;
  std::vector<int> counts_;
  std::vector<int> begins_;
};

}  // namespace
}  // namespace tutti::perf

int main(int argc, char** argv) {
  tutti::perf::Mpi contender;
  return tutti::perf::serve(contender, argc, argv);
}
