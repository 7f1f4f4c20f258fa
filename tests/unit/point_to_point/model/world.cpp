#include "tests/unit/point_to_point/model/world.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "src/base/clock.h"
#include "src/links/non_temporal.h"
#include "src/reduction/reduction.h"

namespace tutti {

std::uint64_t model_now = 0;

// What the engine wants of rooms that are not here.
bool use_non_temporal(std::uint64_t, std::uint64_t) { return false; }
FoldFunction find_copy() { return nullptr; }

}  // namespace tutti

/// In the place of the system's.
extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  if (tutti::model_now == 0) return static_cast<int>(::syscall(SYS_clock_gettime, clock, time));
  *time = {static_cast<time_t>(tutti::model_now / tutti::kSecond), static_cast<long>(tutti::model_now % tutti::kSecond)};
  return 0;
}

namespace tutti {
namespace {

ModelLink& of(tutti_link* link) { return *reinterpret_cast<ModelLink*>(link); }

tutti_link_result reserve(tutti_link* link, std::uint64_t bytes, std::uint64_t, tutti_room* room) {
  ModelLink& model = of(link);
  if (model.messages.size() >= model.slots) return TUTTI_LINK_NOT_YET;
  model.room.resize(std::max<std::uint64_t>(bytes, 1));
  *room = {model.room.data(), 0};
  return TUTTI_LINK_OK;
}
tutti_link_result commit(tutti_link* link, std::uint64_t bytes, std::uint64_t word) {
  ModelLink& model = of(link);
  model.room.resize(bytes);
  model.messages.push_back({std::exchange(model.room, {}), word});
  return TUTTI_LINK_OK;
}
tutti_link_result send(tutti_link* link, const void* source, std::uint64_t bytes, std::uint64_t word) {
  return tutti_send_in_parts(reserve, commit, link, source, bytes, word);
}
tutti_link_result flushed(tutti_link* link) {
  if (of(link).broken) return TUTTI_LINK_BROKEN;
  return of(link).keeps && !of(link).messages.empty() ? TUTTI_LINK_NOT_YET : TUTTI_LINK_OK;
}
tutti_link_result view(tutti_link* link, tutti_message* message) {
  if (of(link).messages.empty()) return of(link).broken ? TUTTI_LINK_BROKEN : TUTTI_LINK_NOT_YET;
  const ModelLink::Message& front = of(link).messages.front();
  *message = {front.bytes.data(), front.bytes.size(), front.word};
  return TUTTI_LINK_OK;
}
void release(tutti_link* link) { of(link).messages.pop_front(); }

const tutti_transport& model_transport() {
  static const tutti_transport transport = [] {
    tutti_transport table{};
    table.reserve = reserve;
    table.commit = commit;
    table.send = send;
    table.flushed = flushed;
    table.view = view;
    table.release = release;
    return table;
  }();
  return transport;
}

}  // namespace

bool EngineTurns::is_empty(const TransferEngine& engine) {
  const auto has_lines = [](const PeerChannel& p) {
    return !p.notices.empty() || !p.answers.empty() || !p.sends.empty() || !p.sending.empty() || !p.leaving.empty();
  };
  return engine.under_way_.empty() && engine.announced_.empty() && engine.receiving_.empty() && engine.ghosts_ == 0 &&
         engine.notices_ == 0 && engine.pending_.load() == 0 && engine.needs_any_ == 0 &&
         std::ranges::none_of(engine.peers_, has_lines);
}

tutti_status Posted::end() const {
  const auto status = work->test();
  return status ? status->code() : TUTTI_IN_PROGRESS;
}

std::uint32_t Posted::number() const {
  std::uint32_t number = 0;
  std::memcpy(&number, memory.data(), std::min(memory.size(), sizeof number));
  return number;
}

TransferWorld::TransferWorld(int ranks, std::uint64_t longest_eager)
    : ranks_(ranks),
      links_(static_cast<std::size_t>(ranks * ranks)),
      sending_(links_.size()),
      receiving_(links_.size()),
      transports_(static_cast<std::size_t>(ranks)),
      failures_(static_cast<std::size_t>(ranks)) {
  model_now = kSecond;
  for (int from = 0; from < ranks; ++from) {
    for (int to = 0; to < ranks; ++to) {
      HostLink end;
      end.transport = &model_transport();
      end.link = reinterpret_cast<tutti_link*>(&link(from, to));
      end.state.size = sizeof end.state;
      end.state.slots = 4;
      end.state.slot_bytes = link_slot_bytes;
      for (const bool sends : {true, false}) {
        end_of(from, to, sends) = end;
        end_of(from, to, sends).peer = sends ? to : from;
      }
    }
  }
  for (int rank = 0; rank < ranks; ++rank) {
    Transports& own = transports_[static_cast<std::size_t>(rank)];
    own.find = [this, rank](int peer, bool sends) {
      return sends ? &end_of(rank, peer, true) : &end_of(peer, rank, false);
    };
    own.broken = [](const HostLink& end) { return of(end.link).broken; };
    engines_.push_back(std::make_unique<TransferEngine>(
        TransferContext{rank, ranks, static_cast<std::uint64_t>(ranks), longest_eager, own,
                        failures_[static_cast<std::size_t>(rank)], operations_, policy_, limit_ns_}));
  }
}

TransferWorld::~TransferWorld() {
  engines_.clear();
  model_now = 0;
}

HostLink& TransferWorld::end_of(int from, int to, bool sends) {
  return (sends ? sending_ : receiving_)[static_cast<std::size_t>(from * ranks_ + to)];
}

std::unique_ptr<Posted> TransferWorld::post(int rank, bool sends, const Asked& asked) {
  auto posted = std::make_unique<Posted>();
  posted->memory.resize(asked.bytes);
  if (sends) std::memcpy(posted->memory.data(), &asked.number, std::min(asked.bytes, sizeof asked.number));
  Transfer& transfer = posted->transfer;
  transfer.sends = sends;
  transfer.memory = posted->memory.data();
  transfer.bytes = asked.bytes;
  transfer.peer = asked.peer;
  transfer.tag = asked.tag;
  transfer.timeout_ns = asked.soft_ns != 0 ? asked.soft_ns : asked.limit_ns;
  transfer.soft = asked.soft_ns != 0;
  posted->work =
      std::make_shared<Work>(PollHook{}, WorkDescription{sends ? "send" : "recv", asked.bytes, 0}, &engine(rank));
  posted->work->issue(0, std::make_shared<int>(0));
  engine(rank).post(transfer, posted->work, false);
  return posted;
}

void TransferWorld::step(int rank, int turns) {
  for (int i = 0; i < turns; ++i) EngineTurns::step(engine(rank));
}

void TransferWorld::rest(int rank, int turns) {
  for (int i = 0; i < turns && EngineTurns::is_wanted(engine(rank)); ++i) EngineTurns::step(engine(rank));
}

void TransferWorld::step_all(int turns) {
  for (int i = 0; i < turns; ++i) {
    for (int rank = 0; rank < ranks_; ++rank) step(rank);
  }
}

}  // namespace tutti
