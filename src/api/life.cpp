// Identity, creation, and the end of communicators.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "src/api/handles.h"
#include "src/base/log.h"
#include "src/communicator/identity.h"
#include "src/communicator/rendezvous.h"

namespace tutti {
namespace {

/// The caller's config, as far as its size says.
Result<tutti_config> read_config(const tutti_config* config) {
  tutti_config out = TUTTI_CONFIG_INIT;
  if (config == nullptr) return out;
  if (config->size < sizeof(size_t) || config->size > 4096) {
    return invalid(fmt::format("tutti_config.size is {}", config->size), "Initialise it with TUTTI_CONFIG_INIT.");
  }
  std::memcpy(&out, config, std::min(config->size, sizeof out));
  out.size = sizeof out;
  return out;
}

/// What a creation needs, owned: a non-blocking one outlives the call.
struct Creation {
  JoinRequest request;
  std::optional<tutti_unique_id> id;
  tutti_config config;

  Result<std::unique_ptr<Communicator>> run(const std::atomic<bool>& interrupted) {
    if (id) request.id = &*id;
    request.patience = {Deadline::in(request.settings.connect_timeout_ns), &interrupted, config.poll, config.poll_ctx};
    return Communicator::create(std::move(request), &config);
  }
};

void settle(tutti_comm& comm, Result<std::unique_ptr<Communicator>> made) {
  if (made.ok()) {
    comm.communicator = std::move(*made);
    comm.rank = comm.communicator->rank();
    comm.ranks = comm.communicator->ranks();
  } else {
    comm.creation_error = made.status();
  }
  // Release: whoever sees it settled reads the fields above.
  comm.settled.store(true, std::memory_order_release);
}

Status create(tutti_comm** out, Creation creation) {
  auto comm = std::make_unique<tutti_comm>();
  comm->pid = getpid();
  const auto place = place_of(creation.request);
  if (!place.ok()) return place.status();
  comm->rank = place->rank;
  comm->ranks = place->ranks;
  if (creation.config.non_blocking != 0) {
    tutti_comm* handle = comm.release();
    *out = handle;
    handle->creation = std::thread([handle, creation = std::move(creation)]() mutable {
      settle(*handle, creation.run(handle->interrupted));
    });
    return Status(TUTTI_IN_PROGRESS, "the communicator is being created");
  }
  settle(*comm, creation.run(comm->interrupted));
  if (!comm->creation_error.ok()) return comm->creation_error;
  *out = comm.release();
  return {};
}

/// Checks and gathers what all forms of creation have in common.
Result<Creation> prepare(tutti_comm** out, int ranks, int rank, bool from_launcher, const tutti_config* config) {
  if (out == nullptr) return invalid("creation needs a place for the communicator");
  *out = nullptr;
  const bool unset = from_launcher && ranks == -1 && rank == -1;
  if (!unset && ranks < 1) return invalid(fmt::format("a communicator of {} ranks cannot be", ranks), "Pass at least 1.");
  if (!unset && (rank < 0 || rank >= ranks)) {
    return invalid(fmt::format("rank {} is outside the size {}", rank, ranks), fmt::format("Pass a rank from 0 to {}.", ranks - 1));
  }
  const auto given = read_config(config);
  if (!given.ok()) return given.status();
  auto settings = effective_settings(&*given);
  if (!settings.ok()) return settings.status();
  warn_of_unknown_settings();
  Creation creation;
  creation.config = *given;
  if (given->name != nullptr) creation.request.name = given->name;
  creation.request.settings = std::move(*settings);
  creation.request.rank = rank;
  creation.request.ranks = ranks;
  return creation;
}

Status create_all(tutti_comm** comms, int ranks, const tutti_config* config) {
  if (comms == nullptr) return invalid("tutti_comm_create_all needs room for the communicators");
  if (ranks < 1) return invalid(fmt::format("a group of {} ranks cannot be", ranks), "Pass at least 1.");
  std::fill(comms, comms + ranks, nullptr);
  tutti_unique_id id;
  if (tutti_get_unique_id(&id) != TUTTI_SUCCESS) {
    return Status(TUTTI_SYSTEM_ERROR, "no identity could be made for the group", "tutti_error_get(NULL, …) has told why.");
  }
  std::vector<Status> results(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      auto creation = prepare(&comms[r], ranks, r, false, config);
      Status& result = results[static_cast<std::size_t>(r)];
      if (!creation.ok()) {
        result = creation.status();
        return;
      }
      creation->config.non_blocking = 0;  // all at once, and this call is there to wait for them
      creation->id = id;
      result = create(&comms[r], std::move(*creation));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Status& result : results) {
    if (result.ok()) continue;
    for (int r = 0; r < ranks; ++r) {
      static_cast<void>(tutti_comm_destroy(comms[r]));
      comms[r] = nullptr;
    }
    return result;
  }
  return {};
}

}  // namespace
}  // namespace tutti

using tutti::Result;
using tutti::Status;

tutti_status tutti_get_unique_id(tutti_unique_id* id) {
  return tutti::guarded([&]() -> Status {
    if (id == nullptr) return tutti::invalid("tutti_get_unique_id needs a place for the id");
    auto settings = tutti::effective_settings(nullptr);
    if (!settings.ok()) return settings.status();
    auto made = tutti::make_unique_id(*settings);
    if (made.ok()) *id = *made;
    return made.status();
  });
}

tutti_status tutti_unique_id_to_text(const tutti_unique_id* id, char* text) {
  return tutti::guarded([&] {
    if (id == nullptr || text == nullptr) return tutti::invalid("tutti_unique_id_to_text needs an id and room for its text");
    const std::string printed = tutti::id_to_text(*id);
    std::memcpy(text, printed.c_str(), printed.size() + 1);
    return Status();
  });
}

tutti_status tutti_unique_id_from_text(const char* text, tutti_unique_id* id) {
  return tutti::guarded([&]() -> Status {
    if (id == nullptr || text == nullptr) return tutti::invalid("tutti_unique_id_from_text needs a text and room for the id");
    auto parsed = tutti::id_from_text(text);
    if (parsed.ok()) *id = *parsed;
    return parsed.status();
  });
}

tutti_status tutti_comm_create(tutti_comm** comm, int ranks, const tutti_unique_id* id, int rank, const tutti_config* config) {
  return tutti::guarded([&]() -> Status {
    auto creation = tutti::prepare(comm, ranks, rank, false, config);
    if (!creation.ok()) return creation.status();
    if (id == nullptr) return tutti::invalid("tutti_comm_create needs an id", "Make one with tutti_get_unique_id.");
    creation->id = *id;
    return tutti::create(comm, std::move(*creation));
  });
}

tutti_status tutti_comm_create_address(tutti_comm** comm, const char* address, int ranks, int rank, const tutti_config* config) {
  return tutti::guarded([&]() -> Status {
    auto creation = tutti::prepare(comm, ranks, rank, true, config);
    if (!creation.ok()) return creation.status();
    if (address == nullptr) return tutti::invalid("tutti_comm_create_address needs an address", "Pass env:// for example.");
    creation->request.address = address;
    return tutti::create(comm, std::move(*creation));
  });
}

tutti_status tutti_comm_create_bootstrap(tutti_comm** comm, int ranks, int rank, const tutti_bootstrap* bootstrap,
                                         const tutti_config* config) {
  return tutti::guarded([&]() -> Status {
    auto creation = tutti::prepare(comm, ranks, rank, false, config);
    if (!creation.ok()) return creation.status();
    if (bootstrap == nullptr || bootstrap->size < sizeof(tutti_bootstrap) || bootstrap->allgather == nullptr) {
      return tutti::invalid("tutti_comm_create_bootstrap needs a bootstrap with its size and allgather set");
    }
    creation->request.bootstrap = bootstrap;
    creation->config.non_blocking = 0;  // the caller's function may be called during this call only
    return tutti::create(comm, std::move(*creation));
  });
}

tutti_status tutti_comm_create_all(tutti_comm** comms, int ranks, const tutti_config* config) {
  return tutti::guarded([&] { return tutti::create_all(comms, ranks, config); });
}

tutti_status tutti_comm_split(tutti_comm* comm, int color, int key, tutti_comm** out, const tutti_config* config) {
  return tutti::guarded([&]() -> Status {
    if (out == nullptr) return tutti::invalid("tutti_comm_split needs a place for the communicator");
    *out = nullptr;
    auto parent = tutti::usable(comm);
    if (!parent.ok()) return parent.status();
    const auto given = tutti::read_config(config);
    if (!given.ok()) return given.status();
    auto child = (*parent)->split(color, key, config != nullptr ? &*given : nullptr);
    if (!child.ok()) return child.status();
    if (*child == nullptr) return {};
    auto handle = std::make_unique<tutti_comm>();
    handle->pid = getpid();
    tutti::settle(*handle, std::move(child));
    *out = handle.release();
    return {};
  });
}

tutti_status tutti_comm_finalize(tutti_comm* comm) {
  return tutti::guarded([&]() -> Status {
    auto usable = tutti::usable(comm);
    return usable.ok() ? (*usable)->finalize() : usable.status();
  });
}

tutti_status tutti_comm_destroy(tutti_comm* comm) {
  return tutti::guarded([&] {
    if (comm == nullptr) return Status();
    comm->interrupted.store(true, std::memory_order_relaxed);  // relaxed: carries no data
    if (comm->creation.joinable()) comm->creation.join();
    // A forked child lets go of its copy without a word to the parent's peers.
    if (comm->pid != getpid()) static_cast<void>(comm->communicator.release());
    delete comm;
    return Status();
  });
}

tutti_status tutti_comm_abort(tutti_comm* comm) {
  return tutti::guarded([&]() -> Status {
    if (comm == nullptr) return tutti::invalid("the communicator is NULL");
    comm->interrupted.store(true, std::memory_order_relaxed);  // relaxed: carries no data
    // Acquire: as in usable.
    if (comm->settled.load(std::memory_order_acquire) && comm->communicator != nullptr) comm->communicator->abort();
    return {};
  });
}

tutti_status tutti_comm_size(const tutti_comm* comm, int* ranks) {
  if (comm == nullptr || ranks == nullptr) return tutti::answer(tutti::invalid("tutti_comm_size needs a communicator and a place"));
  *ranks = comm->ranks;
  return TUTTI_SUCCESS;
}

tutti_status tutti_comm_rank(const tutti_comm* comm, int* rank) {
  if (comm == nullptr || rank == nullptr) return tutti::answer(tutti::invalid("tutti_comm_rank needs a communicator and a place"));
  *rank = comm->rank;
  return TUTTI_SUCCESS;
}

tutti_status tutti_comm_state(const tutti_comm* comm, tutti_comm_state_kind* state) {
  if (comm == nullptr || state == nullptr) return tutti::answer(tutti::invalid("tutti_comm_state needs a communicator and a place"));
  const bool settled = comm->settled.load(std::memory_order_acquire);  // acquire: as in usable
  *state = !settled                       ? TUTTI_COMM_CREATING
           : comm->communicator == nullptr ? TUTTI_COMM_FAILED
                                           : static_cast<tutti_comm_state_kind>(comm->communicator->state());
  return TUTTI_SUCCESS;
}

tutti_status tutti_comm_set_timeout(tutti_comm* comm, uint64_t timeout_ns) {
  return tutti::guarded([&]() -> Status {
    auto usable = tutti::usable(comm);
    if (usable.ok()) (*usable)->set_timeout(timeout_ns);
    return usable.status();
  });
}

tutti_status tutti_comm_sequence(const tutti_comm* comm, uint64_t* sequence) {
  return tutti::guarded([&]() -> Status {
    auto usable = tutti::usable(const_cast<tutti_comm*>(comm));  // only read
    if (!usable.ok()) return usable.status();
    if (sequence == nullptr) return tutti::invalid("tutti_comm_sequence needs a place for the number");
    *sequence = (*usable)->sequence();
    return {};
  });
}

tutti_status tutti_comm_last_choice(const tutti_comm* comm, tutti_comm_choice* choice) {
  return tutti::guarded([&]() -> Status {
    auto usable = tutti::usable(const_cast<tutti_comm*>(comm));  // only read
    if (!usable.ok()) return usable.status();
    if (choice == nullptr || choice->size < sizeof(tutti_comm_choice)) {
      return tutti::invalid("tutti_comm_last_choice needs a choice whose size is set");
    }
    choice->algorithm = (*usable)->last_algorithm();
    choice->transport = (*usable)->transport_names();
    return {};
  });
}
