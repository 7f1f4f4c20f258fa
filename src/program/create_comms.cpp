#include "src/program/create_comms.h"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "src/program/signals.h"

namespace tutti::program {
namespace {

using Clock = std::chrono::steady_clock;

// By then a rank has opened the rendezvous that is its to open. Halfway there, its file has nobody yet who removes it.
constexpr auto kOpened = std::chrono::milliseconds(500);

// A millisecond, or until a signal.
void pause() { ::poll(nullptr, 0, 1); }

// The communicators that are being created, and the first failure among them.
class Creations {
 public:
  void begin(std::size_t count, const tutti_config* config, const Begin& begin);
  /// Whether the wait is over: all are there, or one has failed.
  bool settled();
  bool failed() const { return created_.code != kGood; }
  /// Has what is under way end soon.
  void abort();
  bool under_way() const;
  /// Ends what is under way, and destroys it.
  void destroy();
  Created take() { return std::move(created_); }

 private:
  void note(const tutti_comm* comm, tutti_status status);

  Created created_;
};

tutti_comm_state_kind state_of(const tutti_comm* comm) {
  tutti_comm_state_kind state = TUTTI_COMM_FAILED;
  tutti_comm_state(comm, &state);
  return state;
}

void Creations::note(const tutti_comm* comm, tutti_status status) {
  if (failed()) return;
  created_.code = exit_code(status);
  created_.sentence = error_sentence(comm, status);
}

void Creations::begin(std::size_t count, const tutti_config* config, const Begin& begin) {
  const tutti_config defaults = TUTTI_CONFIG_INIT;
  tutti_config own = config != nullptr ? *config : defaults;
  own.non_blocking = 1;
  for (std::size_t i = 0; i < count && !failed(); ++i) {
    tutti_comm* comm = nullptr;
    const tutti_status status = begin(i, &comm, &own);
    if (status != TUTTI_SUCCESS && status != TUTTI_IN_PROGRESS) note(nullptr, status);
    if (comm != nullptr) created_.comms.push_back(comm);
  }
}

bool Creations::under_way() const {
  return std::any_of(created_.comms.begin(), created_.comms.end(),
                     [](const tutti_comm* comm) { return state_of(comm) == TUTTI_COMM_CREATING; });
}

bool Creations::settled() {
  for (const tutti_comm* comm : created_.comms) {
    if (state_of(comm) != TUTTI_COMM_FAILED) continue;
    tutti_error error = {};
    error.size = sizeof error;
    tutti_error_get(comm, &error);
    note(comm, error.status);
  }
  return failed() || !under_way();
}

void Creations::abort() {
  for (tutti_comm* comm : created_.comms) tutti_comm_abort(comm);
}

void Creations::destroy() {
  abort();  // all before the first, whose destruction waits for its end
  for (tutti_comm* comm : created_.comms) tutti_comm_destroy(comm);
  created_.comms.clear();
}

}  // namespace

Created create(std::size_t count, const tutti_config* config, const Begin& begin) {
  Creations creations;
  PutOffSignals signals;
  const auto opened = Clock::now() + kOpened;
  creations.begin(count, config, begin);
  while (!creations.settled() && signals.caught() == 0) pause();
  if (creations.failed()) creations.destroy();
  if (const int signal = signals.release(); signal != 0) {
    creations.abort();
    // Later not a moment: after its SIGTERM mpirun gives a rank two milliseconds until SIGKILL. At exit the library takes
    // leave of the peers and removes what it keeps until they have met.
    while (creations.under_way() && Clock::now() < opened) pause();
    exit_by_signal(signal);
  }
  return creations.take();
}

}  // namespace tutti::program
