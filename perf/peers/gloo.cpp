// Gloo under comparison, as PyTorch uses it: its TCP transport, the option-style collectives, with options and registered
// buffers made once and used again. Option: algorithm=ring|bcube for all_reduce.
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/gather.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/scatter.h>
#include <gloo/transport/tcp/device.h>
#include <sys/stat.h>

#include <exception>
#include <functional>
#include <memory>

#include "perf/peers/contender.h"

namespace tutti::perf {
namespace {

using Context = std::shared_ptr<gloo::Context>;
using Fold = void (*)(void*, const void*, const void*, size_t);
using Verb = std::function<void()>;

/// One operation on its buffers, as Gloo's options want it.
struct Call {
  const CheckedOperation& operation;
  std::byte* send;
  std::byte* recv;
  Fold fold;
  const std::string& algorithm;

  bool root() const { return operation.rank == operation.root; }
};

template <class T>
Fold fold_of(tutti_op op) {
  switch (op) {
    case TUTTI_SUM:
      return static_cast<Fold>(&gloo::sum<T>);
    case TUTTI_PROD:
      return static_cast<Fold>(&gloo::product<T>);
    case TUTTI_MIN:
      return static_cast<Fold>(&gloo::min<T>);
    case TUTTI_MAX:
      return static_cast<Fold>(&gloo::max<T>);
    default:
      return nullptr;
  }
}

template <class T>
T* as(std::byte* memory) {
  return reinterpret_cast<T*>(memory);
}

/// Makes options once and a call of `run` on them.
template <class Options>
Verb ready(std::shared_ptr<Options> options, void (*run)(Options&)) {
  return [options, run] { run(*options); };
}

template <class T>
Verb all_reduce(const Context& context, const Call& call) {
  auto options = std::make_shared<gloo::AllreduceOptions>(context);
  if (call.send != call.recv) options->setInput(as<T>(call.send), call.operation.count);
  options->setOutput(as<T>(call.recv), call.operation.count);
  options->setReduceFunction(call.fold);
  if (call.algorithm == "ring") options->setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
  if (call.algorithm == "bcube") options->setAlgorithm(gloo::AllreduceOptions::Algorithm::BCUBE);
  return [options] { gloo::allreduce(*options); };
}

template <class T>
Verb broadcast(const Context& context, const Call& call) {
  auto options = std::make_shared<gloo::BroadcastOptions>(context);
  options->setOutput(as<T>(call.recv), call.operation.count);
  options->setRoot(call.operation.root);
  return ready(options, gloo::broadcast);
}

template <class T>
Verb all_gather(const Context& context, const Call& call) {
  auto options = std::make_shared<gloo::AllgatherOptions>(context);
  options->setInput(as<T>(call.send), call.operation.count);
  options->setOutput(as<T>(call.recv), call.operation.count * static_cast<size_t>(context->size));
  return ready(options, gloo::allgather);
}

template <class T>
Verb all_to_all(const Context& context, const Call& call) {
  auto options = std::make_shared<gloo::AlltoallOptions>(context);
  const size_t all = call.operation.count * static_cast<size_t>(context->size);
  options->setInput(as<T>(call.send), all);
  options->setOutput(as<T>(call.recv), all);
  return ready(options, gloo::alltoall);
}

template <class T>
Verb gather(const Context& context, const Call& call) {
  auto options = std::make_shared<gloo::GatherOptions>(context);
  options->setInput(as<T>(call.send), call.operation.count);
  if (call.root()) options->setOutput(as<T>(call.recv), call.operation.count * static_cast<size_t>(context->size));
  options->setRoot(call.operation.root);
  return ready(options, gloo::gather);
}

template <class T>
Verb scatter(const Context& context, const Call& call) {
  auto options = std::make_shared<gloo::ScatterOptions>(context);
  if (call.root()) {
    std::vector<T*> inputs;
    for (int r = 0; r < context->size; ++r)
      inputs.push_back(as<T>(call.send) + static_cast<size_t>(r) * call.operation.count);
    options->setInputs(inputs, call.operation.count);
  }
  options->setOutput(as<T>(call.recv), call.operation.count);
  options->setRoot(call.operation.root);
  return ready(options, gloo::scatter);
}

Verb barrier(const Context& context) {
  auto options = std::make_shared<gloo::BarrierOptions>(context);
  return ready(options, gloo::barrier);
}

template <class T>
Verb send_recv(const Context& context, const Call& call) {
  const size_t bytes = call.operation.count * sizeof(T);
  const int next = (context->rank + 1) % context->size;
  const int previous = (context->rank + context->size - 1) % context->size;
  std::shared_ptr<gloo::transport::UnboundBuffer> out = context->createUnboundBuffer(call.send, bytes);
  std::shared_ptr<gloo::transport::UnboundBuffer> in = context->createUnboundBuffer(call.recv, bytes);
  return [=] {
    constexpr uint64_t kSlot = uint64_t{1} << 40;  // beside those that the collectives take
    in->recv(previous, kSlot);
    out->send(next, kSlot);
    out->waitSend();
    in->waitRecv();
  };
}

template <class T>
Verb verb_of(const std::string& name, const Context& context, const Call& call) {
  if (name == "all_reduce") return all_reduce<T>(context, call);
  if (name == "broadcast") return broadcast<T>(context, call);
  if (name == "all_gather") return all_gather<T>(context, call);
  if (name == "all_to_all") return all_to_all<T>(context, call);
  if (name == "gather") return gather<T>(context, call);
  if (name == "scatter") return scatter<T>(context, call);
  if (name == "send_recv") return send_recv<T>(context, call);
  return name == "barrier" ? barrier(context) : Verb();
}

/// What a type is to Gloo.
struct Type {
  tutti_type type;
  Fold (*fold)(tutti_op op);
  Verb (*verb)(const std::string& name, const Context& context, const Call& call);
};
template <class T>
constexpr Type type(tutti_type type) {
  return {type, fold_of<T>, verb_of<T>};
}
constexpr Type kTypes[] = {
    type<int8_t>(TUTTI_INT8),     type<uint8_t>(TUTTI_UINT8),  type<int32_t>(TUTTI_INT32),
    type<uint32_t>(TUTTI_UINT32), type<int64_t>(TUTTI_INT64),  type<uint64_t>(TUTTI_UINT64),
    type<float>(TUTTI_FLOAT32),   type<double>(TUTTI_FLOAT64), type<gloo::float16>(TUTTI_FLOAT16),
};

class Gloo : public Contender {
 public:
  std::string start(const ContenderPlace& place) override {
    place_ = place;
    algorithm_ = place.option("algorithm", "");
    try {
      gloo::transport::tcp::attr attributes;
      attributes.hostname = place.address_of(place.rank);
      auto device = gloo::transport::tcp::CreateDevice(attributes);
      const std::string meet = place.folder + "/gloo";
      mkdir(meet.c_str(), 0700);  // whoever comes first
      gloo::rendezvous::FileStore store(meet);
      auto context = std::make_shared<gloo::rendezvous::Context>(place.rank, place.ranks);
      context->setTimeout(std::chrono::seconds(60));
      context->connectFullMesh(store, device);
      context_ = context;
    } catch (const std::exception& failure) {
      return failure.what();
    }
    return "";
  }

  std::string version() override { return "Gloo's TCP transport"; }

  std::string lacks(const CheckedOperation& operation) override {
    type_ = nullptr;
    for (const Type& type : kTypes) {
      if (type.type == operation.pattern.type) type_ = &type;
    }
    const std::string name = operation.collective->name;
    if (type_ == nullptr) return "it has no such type";
    if (name == "reduce_scatter") return "its reduce_scatter is of its older interface, whose memory it keeps to itself";
    if (name == "reduce") return "its reduce writes to the result's buffer on every rank";
    if (operation.collective->reduces() && type_->fold(operation.pattern.op) == nullptr) return "it has no such operator";
    if (operation.in_place && name != "all_reduce" && name != "broadcast") return "its in place means something else";
    return "";
  }

  std::string prepare(const CheckedOperation& operation, const Places& first, uint64_t slots, uint64_t stride) override {
    stride_ = stride;
    base_ = first.recv != nullptr ? first.recv : first.send;
    const Fold fold = type_->fold(operation.pattern.op);
    verbs_.clear();
    for (uint64_t slot = 0; slot < slots; ++slot) {
      const Call call = {operation, first.send + slot * stride, first.recv + slot * stride, fold, algorithm_};
      verbs_.push_back(type_->verb(operation.collective->name, context_, call));
    }
    return verbs_.front() ? "" : std::string("there is no Gloo call for ") + operation.collective->name;
  }

  void finish() override { verbs_.clear(); }

  bool run(const CheckedOperation&, const Places& places) override {
    const std::byte* at = places.recv != nullptr ? places.recv : places.send;
    try {
      verbs_[static_cast<uint64_t>(at - base_) / stride_]();
    } catch (const std::exception& failure) {
      complaint_ = failure.what();
      return false;
    }
    return true;
  }

  std::string complaint() override { return complaint_; }

 private:
  ContenderPlace place_;
  std::string algorithm_;
  Context context_;
  const Type* type_ = nullptr;
  std::vector<Verb> verbs_;
  const std::byte* base_ = nullptr;
  uint64_t stride_ = 1;
  std::string complaint_;
};

}  // namespace
}  // namespace tutti::perf

int main(int argc, char** argv) {
  tutti::perf::Gloo contender;
  return tutti::perf::serve(contender, argc, argv);
}
