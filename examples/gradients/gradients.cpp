// The gradients of a model, summed over all ranks in three ways:
//
//   1. as a list of tensors, which is one operation, however many there are;
//   2. as the calls of a group, which the library makes one operation;
//   3. reproducibly: the bits are the same, however many ranks share the samples.
//
// Start it with mpirun, srun, torchrun, or by hand as examples/hello. It checks its sums, and exits with 1 where one is
// wrong.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <tutti/tutti.hpp>
#include <vector>

namespace {

using Tensor = std::vector<float>;

void require(bool holds, const char* otherwise) {
  if (!holds) throw std::runtime_error(otherwise);
}

/// What a rank has computed: tensors of very different lengths, whose elements are its number and 1 more.
std::vector<Tensor> gradients_of(int rank) {
  std::vector<Tensor> gradients;
  for (const std::size_t length : {1, 3000, 10, 300}) gradients.emplace_back(length, static_cast<float>(rank + 1));
  return gradients;
}

/// Whether they are what all ranks' are together.
bool are_summed(const std::vector<Tensor>& gradients, int ranks) {
  const float sum = static_cast<float>(ranks * (ranks + 1) / 2);
  for (const Tensor& tensor : gradients) {
    for (const float element : tensor) {
      if (element != sum) return false;
    }
  }
  return true;
}

void sum_a_list(const tutti::Communicator& comm) {
  std::vector<Tensor> gradients = gradients_of(comm.rank());

  comm.all_reduce_v(gradients);  // in place

  require(are_summed(gradients, comm.size()), "the list of tensors has wrong sums");
}

void sum_a_group(const tutti::Communicator& comm) {
  std::vector<Tensor> gradients = gradients_of(comm.rank());

  tutti::Group group;
  for (Tensor& tensor : gradients) comm.all_reduce(tensor);  // held back until the group's end
  group.end(tutti::Options().fuse());                        // a promise: all ranks make these very calls

  require(are_summed(gradients, comm.size()), "the group has wrong sums");
}

// 12 samples are shared evenly by 1, 2, 3, 4, 6 or 12 ranks.
constexpr int samples = 12;
constexpr int parameters = 1000;

/// Their magnitudes differ, so that sums in another order have other bits.
Tensor gradient_of_sample(int sample) {
  Tensor gradient(parameters);
  for (int p = 0; p < parameters; ++p) {
    gradient[static_cast<std::size_t>(p)] = std::ldexp(1.0f / static_cast<float>(3 + p), (5 * sample + p) % 17);
  }
  return gradient;
}

/// Every rank of `group` has its share of the samples: those of rank 0 come first.
Tensor sum_of_samples(const tutti::Communicator& group) {
  const int share = samples / group.size();
  Tensor own;
  for (int s = share * group.rank(); s < share * (group.rank() + 1); ++s) {
    const Tensor gradient = gradient_of_sample(s);
    own.insert(own.end(), gradient.begin(), gradient.end());
  }
  Tensor sum(parameters);
  group.all_reduce(own, sum, TUTTI_SUM, tutti::Options().canonical(samples).reproducible());
  return sum;
}

void sum_reproducibly(const tutti::Communicator& comm) {
  const tutti::Communicator alone = comm.split(comm.rank(), 0);  // every rank has a colour of its own
  const Tensor expected = sum_of_samples(alone);
  for (int ranks = 2; ranks <= comm.size(); ++ranks) {
    if (samples % ranks != 0 || comm.rank() >= ranks) continue;
    std::vector<int> members(static_cast<std::size_t>(ranks));
    std::iota(members.begin(), members.end(), 0);
    const tutti::Communicator group = comm.create_members(members);  // these ranks alone call it
    const Tensor sum = sum_of_samples(group);
    require(std::memcmp(sum.data(), expected.data(), sizeof(float) * parameters) == 0, "other ranks give other bits");
  }
}

}  // namespace

int main() {
  try {
    const tutti::Communicator comm("env://");
    sum_a_list(comm);
    sum_a_group(comm);
    sum_reproducibly(comm);
    comm.barrier();
    if (comm.rank() == 0) std::printf("%d ranks, all sums are right\n", comm.size());
  } catch (const tutti::Failure& failure) {
    std::fprintf(stderr, "%s. %s\n", failure.what(), failure.remedy().c_str());
    return 1;
  } catch (const std::exception& wrong) {
    std::fprintf(stderr, "%s.\n", wrong.what());
    return 1;
  }
}
