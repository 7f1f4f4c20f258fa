// Communication behind the caller's back. A backward pass goes from the last layer to the first. As soon as a layer's
// gradients are there they are summed on a queue, while the next layer is computed:
//
//     caller:  layer 3 │ layer 2 │ layer 1 │ layer 0 │ waits
//     queue:             sum 3, mean │ sum 2, mean │ …
//
// What follows a sum, here its mean, is a call on the queue. A second communicator, of every other rank, has a queue of its
// own. Start it with mpirun, srun, torchrun, or by hand as examples/hello. It exits with 1 where a mean is wrong.
#include <atomic>
#include <cstdio>
#include <stdexcept>
#include <thread>
#include <tutti/tutti.hpp>
#include <vector>

namespace {

constexpr int layers = 4;
constexpr std::size_t parameters = 20'000;

void require(bool holds, const char* otherwise) {
  if (!holds) throw std::runtime_error(otherwise);
}

/// Stands for a layer's backward pass: elements are the layer's and the rank's number together.
std::vector<float> computed(int layer, int rank) {
  return std::vector<float>(parameters, static_cast<float>(100 * layer + rank));
}

/// The means of all layers' gradients over the ranks of `comm`.
void train(const tutti::Communicator& comm) {
  const int ranks = comm.size();
  std::vector<std::vector<float>> gradients(layers);
  std::vector<tutti::Work> means(layers);
  std::atomic<int> sums{0};  // as long as works tell of it
  const tutti::Queue queue;  // goes first, and completes what is on it
  for (int layer = layers - 1; layer >= 0; --layer) {
    const auto l = static_cast<std::size_t>(layer);
    gradients[l] = computed(layer, comm.rank());

    tutti::Work sum;
    comm.all_reduce(gradients[l], TUTTI_SUM, tutti::Options(queue.stream()).work(sum).name("gradients"));
    sum.notify([&sums](tutti_status status) { sums += status == TUTTI_SUCCESS ? 1 : 0; });  // short, by whoever ends it
    means[l] = queue.call([&gradients, l, ranks] {
      for (float& element : gradients[l]) element /= static_cast<float>(ranks);
    });
  }
  for (std::size_t l = 0; l < layers; ++l) {
    means[l].wait();  // the optimizer may go on with this layer
    const float mean = static_cast<float>(100 * l) + static_cast<float>(ranks - 1) / 2;
    for (const float element : gradients[l]) require(element == mean, "a mean is wrong");
  }
  queue.wait();
  while (sums != layers) std::this_thread::yield();  // who waits may be back before the notice
}

}  // namespace

int main() {
  try {
    const tutti::Communicator comm("env://");
    train(comm);
    // Ranks 0, 2, 4, … and ranks 1, 3, 5, … at the same time. The key keeps their order.
    const tutti::Communicator half = comm.split(comm.rank() % 2, comm.rank());
    std::vector<int> position = {half.rank()};
    require(position[0] == comm.rank() / 2, "a rank of the half has a wrong number");
    half.all_reduce(position);
    require(position[0] == half.size() * (half.size() - 1) / 2, "the half has a wrong sum");
    train(half);
    comm.barrier();
    if (comm.rank() == 0) std::printf("%d ranks, all means are right\n", comm.size());
  } catch (const tutti::Failure& failure) {
    std::fprintf(stderr, "%s. %s\n", failure.what(), failure.remedy().c_str());
    return 1;
  } catch (const std::exception& wrong) {
    std::fprintf(stderr, "%s.\n", wrong.what());
    return 1;
  }
}
