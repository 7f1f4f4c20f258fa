#include "trainer/communicator.h"

#include "src/program/exit_code.h"

namespace tutti::trainer {
namespace {

constexpr tutti_stream kBlocking = {TUTTI_STREAM_BLOCKING, nullptr};

}  // namespace

CommunicatorPeers::~CommunicatorPeers() {
  // Destroying the queue completes what is enqueued: the gradients' memory is the caller's again afterwards.
  if (queue_ != nullptr) tutti_queue_destroy(queue_);
  for (tutti_work* work : works_) tutti_work_release(work);
  for (void* memory : memory_) static_cast<void>(tutti_memory_free(memory));
}

TrainingOutcome CommunicatorPeers::outcome(tutti_status status) {
  if (status == TUTTI_SUCCESS) return {};
  if (status_ == TUTTI_SUCCESS) status_ = status;
  return TrainingFailure{static_cast<TrainerExit>(program::exit_code(status)), program::error_sentence(comm_, status)};
}

TrainingOutcome CommunicatorPeers::open() {
  if (TrainingOutcome failure = outcome(tutti_comm_rank(comm_, &rank_))) return failure;
  if (TrainingOutcome failure = outcome(tutti_comm_size(comm_, &size_))) return failure;
  return outcome(tutti_queue_create(&queue_));
}

Fallible<std::span<float>> CommunicatorPeers::memory(std::size_t count) {
  void* memory = nullptr;
  if (TrainingOutcome failure = outcome(tutti_memory_alloc(&memory, count * sizeof(float)))) return *failure;
  memory_.push_back(memory);
  return std::span(static_cast<float*>(memory), count);
}

TrainingOutcome CommunicatorPeers::start_sum(std::size_t slot, std::span<float> data, std::size_t operands) {
  if (slot >= works_.size()) works_.resize(slot + 1, nullptr);
  tutti_call call = TUTTI_CALL_INIT;
  call.name = "gradients";
  call.work = &works_[slot];
  call.canonical = static_cast<std::uint32_t>(operands);
  return outcome(tutti_all_reduce(data.data(), data.data(), data.size(), TUTTI_FLOAT32, TUTTI_SUM, comm_,
                                  {TUTTI_STREAM_QUEUE, queue_}, &call));
}

TrainingOutcome CommunicatorPeers::wait(std::size_t slot) {
  const tutti_status status = tutti_work_wait(works_[slot], 0);
  tutti_work_details info{};
  info.size = sizeof info;
  if (tutti_work_info(works_[slot], &info) == TUTTI_SUCCESS) busy_ns_ += info.end_ns - info.start_ns;
  tutti_work_release(works_[slot]);
  works_[slot] = nullptr;
  return outcome(status);
}

TrainingOutcome CommunicatorPeers::sum(std::span<double> values) {
  return outcome(
      tutti_all_reduce(values.data(), values.data(), values.size(), TUTTI_FLOAT64, TUTTI_SUM, comm_, kBlocking, nullptr));
}

TrainingOutcome CommunicatorPeers::gather(const void* mine, std::size_t bytes, void* all) {
  return outcome(tutti_all_gather(mine, all, bytes, TUTTI_UINT8, comm_, kBlocking, nullptr));
}

TrainingOutcome CommunicatorPeers::broadcast(void* data, std::size_t bytes) {
  return outcome(tutti_broadcast(data, data, bytes, TUTTI_UINT8, 0, comm_, kBlocking, nullptr));
}

double CommunicatorPeers::communication_seconds() const { return static_cast<double>(busy_ns_) * 1e-9; }

}  // namespace tutti::trainer
