// Tutti under comparison, through its public face like any user. Options: memory=registered takes the buffers from
// tutti_memory_alloc, algorithm=NAME overrides the library's choice, spin=1|-1 as tutti_config's; threads=N joins N ranks
// that are threads of this process, for the time that takes.
#include "tutti/tutti.h"

#include <string>
#include <vector>

#include "perf/measure.h"
#include "perf/peers/contender.h"

namespace tutti::perf {
namespace {

class Tutti : public Contender {
 public:
  ~Tutti() override {
    for (tutti_comm* comm : threads_) tutti_comm_destroy(comm);
    tutti_comm_destroy(comm_);
  }

  std::string start(const ContenderPlace& place) override {
    place_ = place;
    registered_ = place.option("memory", "host") == "registered";
    algorithm_ = place.option("algorithm", "");
    tutti_config config = TUTTI_CONFIG_INIT;
    config.transports = place_.transport.c_str();
    config.spin = std::stoi(place.option("spin", "0"));
    const int threads = std::stoi(place.option("threads", "0"));
    if (threads > 0) {
      threads_.resize(static_cast<size_t>(threads));
      return tutti_comm_create_all(threads_.data(), threads, &config) == TUTTI_SUCCESS ? "" : complaint();
    }
    const std::string meet = "file://" + place.folder + "/rendezvous";
    if (tutti_comm_create_address(&comm_, meet.c_str(), place.ranks, place.rank, &config) != TUTTI_SUCCESS)
      return complaint();
    if (!algorithm_.empty()) call_.algorithm = algorithm_.c_str();
    return "";
  }

  std::string version() override {
    const int number = tutti_version();
    return std::to_string(number / 10000) + "." + std::to_string(number / 100 % 100) + "." + std::to_string(number % 100);
  }

  std::string lacks(const CheckedOperation& operation) override {
    return operation.in_place && !operation.collective->in_place ? "it has no in-place form" : "";
  }

  std::byte* allocate(uint64_t bytes) override {
    if (!registered_) return Contender::allocate(bytes);
    void* memory = nullptr;
    return tutti_memory_alloc(&memory, bytes) == TUTTI_SUCCESS ? static_cast<std::byte*>(memory) : nullptr;
  }

  void release(std::byte* memory, uint64_t bytes) override {
    if (!registered_) return Contender::release(memory, bytes);
    tutti_memory_free(memory);
  }

  bool run(const CheckedOperation& operation, const Places& places) override {
    return operation.collective->call({places.send, places.recv, operation.count, operation.pattern.type,
                                       operation.pattern.op, operation.root, place_.rank, place_.ranks, comm_,
                                       algorithm_.empty() ? nullptr : &call_, kBlocking, places.lists}) == TUTTI_SUCCESS;
  }

  std::string choice() override {
    tutti_comm_choice choice = {sizeof choice, nullptr, nullptr, nullptr};
    if (tutti_comm_last_choice(comm_, &choice) != TUTTI_SUCCESS || choice.algorithm == nullptr) return "";
    return std::string(choice.algorithm) + " over " + choice.transport;
  }

  std::string complaint() override {
    const tutti_error error = last_error();
    return std::string(error.message) + (error.remedy[0] != '\0' ? ". " : "") + error.remedy;
  }

  int exit_code() override { return program::exit_code(last_error().status); }

 private:
  tutti_error last_error() const {
    tutti_error error = {};
    error.size = sizeof error;
    if (comm_ == nullptr || tutti_error_get(comm_, &error) != TUTTI_SUCCESS || error.status == TUTTI_SUCCESS) {
      tutti_error_get(nullptr, &error);
    }
    return error;
  }

  ContenderPlace place_;
  bool registered_ = false;
  std::string algorithm_;
  tutti_call call_ = TUTTI_CALL_INIT;
  tutti_comm* comm_ = nullptr;
  std::vector<tutti_comm*> threads_;
};

}  // namespace
}  // namespace tutti::perf

int main(int argc, char** argv) {
  tutti::perf::Tutti contender;
  return tutti::perf::serve(contender, argc, argv);
}
