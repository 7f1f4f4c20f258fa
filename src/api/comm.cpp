// Identity, creation, and the end of communicators.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "src/api/handles.h"
#include "src/base/log.h"
#include "src/base/no_cancellation.h"
#include "src/bootstrap/rendezvous.h"
#include "src/bootstrap/rendezvous_address.h"
#include "src/bootstrap/unique_id.h"
#include "src/control/log_lines.h"
#include "src/cuda/driver.h"

namespace tutti {
namespace {

/// Whether a sized struct can be read, or written, as far as its size says.
template <typename Struct>
bool has_size(const Struct& sized) {
  return sized.size >= sizeof(size_t) && sized.size <= 4096;
}

/// The caller's config, as far as its size says.
Result<tutti_config> read_config(const tutti_config* config) {
  tutti_config out = TUTTI_CONFIG_INIT;
  if (config == nullptr) return out;
  if (!has_size(*config)) {
    return invalid(fmt::format("tutti_config.size is {}", config->size), "Initialise it with TUTTI_CONFIG_INIT.");
  }
  std::memcpy(&out, config, std::min(config->size, sizeof out));
  out.size = sizeof out;
  return out;
}

/// Likewise; without an allgather there is nothing to join by.
Result<tutti_bootstrap> read_bootstrap(const tutti_bootstrap* bootstrap) {
  tutti_bootstrap out{};
  if (bootstrap != nullptr && has_size(*bootstrap)) std::memcpy(&out, bootstrap, std::min(bootstrap->size, sizeof out));
  if (out.allgather != nullptr) return out;
  return invalid("tutti_comm_create_bootstrap needs a bootstrap with its size and allgather set");
}

/// Refuses what the fields ask for and this build cannot do: better than not doing it silently.
Status check_config(const tutti_config& config) {
  if (config.memory == TUTTI_MEMORY_CUDA) {
    if (const auto driver = cuda::Driver::get(); !driver.ok()) return driver.status();
  } else if (config.memory != TUTTI_MEMORY_AUTO && config.memory != TUTTI_MEMORY_HOST) {
    return invalid(fmt::format("tutti_config.memory is {}, which is none of AUTO, HOST and CUDA", config.memory),
                   "Managed memory is CUDA's, too.");
  }
  if (config.non_blocking < 0 || config.non_blocking > 2)
    return invalid(fmt::format("tutti_config.non_blocking is {}", config.non_blocking), "Set it to 0, 1 or 2.");
  return check_blocks("tutti_config", config.min_blocks, config.max_blocks);
}

/// Whether what was made with it returns from finalize, and from making others, at once.
bool never_blocks(const tutti_config& config) { return config.non_blocking >= 2; }

/// What a creation needs, owned: a non-blocking one outlives the call.
struct Creation {
  JoinRequest request;
  std::optional<tutti_unique_id> id;
  tutti_config config;

  PollHook hook() const { return {config.poll, config.poll_ctx}; }
  /// In the caller's thread: tells the others why this rank cannot take part, as far as it reaches them soon, and gives
  /// that.
  Status refuse(const Status& failure, const PollHook& waits) {
    request.so_far = failure;
    const std::atomic<bool> never{false};
    const auto made = run(never, waits);
    return made.ok() ? failure : made.status();
  }
  /// waits: the hook, in a thread of the caller's.
  Result<std::unique_ptr<Communicator>> run(const std::atomic<bool>& interrupted, const PollHook& waits) {
    if (id) request.id = &*id;
    request.wait_limits = {Deadline::in(request.settings.connect_timeout_ns), &interrupted, waits};
    return Communicator::create(std::move(request), &config);
  }
};

/// Creates by make(), and leaves the outcome in the handle. Throws nothing.
template <typename Make>
void settle(tutti_comm& comm, const Make& make) {
  comm.creation_error = catching([&] {
    auto made = make();
    if (made.ok()) comm.communicator = std::move(*made);
    if (comm.is_split && comm.communicator != nullptr) {
      comm.rank = comm.communicator->rank();
      comm.ranks = comm.communicator->ranks();
    }
    return made.status();
  });
  // Release: the fields above, to whoever sees it settled. An abort has changed the phase before, and is carried out here
  // before anybody can use the communicator; or finds it settled, and carries it out itself.
  auto before = CreationPhase::under_way;
  if (comm.phase.compare_exchange_strong(before, CreationPhase::settled, std::memory_order_release,
                                         std::memory_order_relaxed)) {
    return;
  }
  if (comm.communicator != nullptr) {
    const Status told = catching([&] {
      comm.communicator->abort();
      return Status();
    });
    if (!told.ok()) {  // no memory: a creation that failed
      comm.creation_error = told;
      comm.communicator.reset();
    }
  }
  comm.phase.store(CreationPhase::settled, std::memory_order_release);  // release: as above
}

/// One that is being created, with what is known of it before.
Result<std::unique_ptr<tutti_comm>> handle_of(Creation& creation) {
  auto comm = std::make_unique<tutti_comm>();
  comm->pid = this_process();
  const auto place = place_of(creation.request);
  if (!place.ok()) return place.status();
  comm->rank = place->rank;
  comm->ranks = place->ranks;
  comm->never_blocks = never_blocks(creation.config);
  // Read now: the caller's, during this call only.
  if (const auto* const global = std::exchange(creation.config.global_ranks, nullptr); global != nullptr)
    creation.request.global = global[place->rank];
  if (place->ranks == 1 && !creation.request.address.empty()) {
    if (Status status = check_address(creation.request.address); !status.ok()) return status;
  }
  return comm;
}

HeldCreation later(tutti_comm** out, std::unique_ptr<tutti_comm> comm, Creation creation) {
  HeldCreation held{out, std::move(comm), nullptr, creation.hook()};
  const auto shared = std::make_shared<Creation>(std::move(creation));
  held.make = [shared](tutti_comm& handle, const std::atomic<bool>& given_up) {
    settle(handle, [&] { return shared->run(given_up, {}); });
    return handle.creation_error;
  };
  held.refuse = [shared](const Status& failure) {
    static_cast<void>(catching([&] { return shared->refuse(failure, {}); }));
  };
  return held;
}

/// Now, in a thread of the library's, or at the end of a group, as config and call say.
Status create(tutti_comm** out, Creation creation) {
  if (!creation.request.so_far.ok()) return creation.refuse(creation.request.so_far, creation.hook());
  auto handle = handle_of(creation);
  if (!handle.ok()) return handle.status();
  std::unique_ptr<tutti_comm> comm = std::move(*handle);
  const bool held = group_is_open() && creation.request.bootstrap == nullptr;
  if (creation.config.non_blocking == 0 && !held) {
    settle(*comm, [&] { return creation.run(comm->interrupted, creation.hook()); });
    if (!comm->creation_error.ok()) return comm->creation_error;
    *out = comm.release();
    return {};
  }
  if (creation.config.non_blocking == 0) {
    hold_creation(later(out, std::move(comm), std::move(creation)));
    return {};
  }
  const auto shared = std::make_shared<Creation>(std::move(creation));
  const Status begun(TUTTI_IN_PROGRESS, "the communicator is being created");  // now: nothing may fail once the thread runs
  const Status started = start_thread(comm->creation, "tutti creation", [made = comm.get(), shared] {
    settle(*made, [&] { return shared->run(made->interrupted, {}); });
  });
  if (!started.ok()) return shared->refuse(started, shared->hook());
  *out = comm.release();
  return begun;
}

/// The settings that a creation goes by; where these, or the config, are refused, the best there are and the refusal.
Settings settings_of(const tutti_config* config, tutti_config& given, Status& refused) {
  const auto read = read_config(config);
  if (read.ok()) given = *read;
  refused = read.ok() ? check_config(given) : read.status();
  auto settings = effective_settings(&given);
  if (settings.ok()) return std::move(*settings);
  if (refused.ok()) refused = settings.status();
  return tolerant_settings(&given);
}

/// Checks and gathers what all forms of creation have in common. What is wrong on this rank alone is noted in the request,
/// since the others are waiting to hear of it.
Result<Creation> prepare(tutti_comm** out, int ranks, int rank, bool from_launcher, const tutti_config* config) {
  if (out == nullptr) return invalid("creation needs a place for the communicator");
  *out = nullptr;
  const bool unset = from_launcher && ranks == -1 && rank == -1;
  if (!unset && ranks < 1) return invalid(fmt::format("a communicator of {} ranks cannot be", ranks), "Pass at least 1.");
  Creation creation;
  creation.config = TUTTI_CONFIG_INIT;
  creation.request.settings = settings_of(config, creation.config, creation.request.so_far);
  if (!unset && (rank < 0 || rank >= ranks)) {
    creation.request.so_far = invalid(fmt::format("rank {} is outside the size {}", rank, ranks),
                                      fmt::format("Pass a rank from 0 to {}.", ranks - 1));
    if (rank < 0) return creation.request.so_far;  // the others cannot be told by a number that is none
  }
  // Now, since the config's strings are the caller's, who may free them before a creation elsewhere comes to log them.
  if (log_enabled(Level::info)) creation.request.settings_line = settings_line(describe_settings(&creation.config));
  warn_of_unknown_settings();
  if (creation.config.name != nullptr) creation.request.name = creation.config.name;
  creation.request.rank = rank;
  creation.request.ranks = ranks;
  return creation;
}

Status create_all(tutti_comm** comms, int ranks, const tutti_config* config) {
  if (comms == nullptr) return invalid("tutti_comm_create_all needs room for the communicators");
  if (ranks < 1) return invalid(fmt::format("a group of {} ranks cannot be", ranks), "Pass at least 1.");
  std::fill(comms, comms + ranks, nullptr);
  std::vector<Creation> prepared;
  for (int r = 0; r < ranks; ++r) {
    auto creation = prepare(&comms[r], ranks, r, false, config);
    if (!creation.ok()) return creation.status();
    if (!creation->request.so_far.ok()) return creation->request.so_far;
    creation->config.non_blocking = 0;  // all at once, and the call is there to wait for them
    prepared.push_back(std::move(*creation));
  }
  // Ends with the call, however that ends: nobody else knows the id.
  const auto meeting = UniqueIdRendezvous::open(prepared.front().request.settings);
  if (!meeting.ok()) return meeting.status();
  std::vector<HeldCreation> creations;
  for (int r = 0; r < ranks; ++r) {
    Creation& creation = prepared[static_cast<std::size_t>(r)];
    creation.id = meeting.value().id();
    auto handle = handle_of(creation);
    if (!handle.ok()) return handle.status();
    creations.push_back(later(&comms[r], std::move(*handle), std::move(creation)));
  }
  return create_together(creations);
}

/// What making a communicator from another needs, owned: another thread may do it later.
struct ChildCreation {
  Communicator* parent = nullptr;
  std::variant<SplitRequest, MembersRequest> request;
  bool non_blocking = false;
  bool never_blocks = false;  ///< nor does it, once it is made
  int rank = -1;              ///< -1: a split's
  int ranks = 0;
  std::shared_ptr<SharedOperation> admission;  ///< let go of after the ticket
  Ticket ticket;

  PartRequest& common() {
    return std::visit([](PartRequest& any) -> PartRequest& { return any; }, request);
  }
  /// Takes its place in the order of entry. In the calling thread.
  Status enter() {
    auto admitted = parent->admit();
    if (!admitted.ok()) return admitted.status();
    admission = std::move(*admitted);
    if (std::holds_alternative<SplitRequest>(request)) ticket = parent->enter();
    return {};
  }
  /// Once it has entered. interrupted: set to end it; may be NULL. hook: as Communicator::run's.
  Result<std::unique_ptr<Communicator>> make(const std::atomic<bool>* interrupted, const PollHook& hook) {
    common().wait_limits.interrupted = interrupted;
    common().wait_limits.hook = hook;
    if (!admission->begin()) {
      ticket.redeem();
      return Status(TUTTI_ABORTED, "the communicator was destroyed before what was made from it could begin",
                    "Wait for it first.");
    }
    if (auto* const split = std::get_if<SplitRequest>(&request)) return parent->split(std::move(*split), std::move(ticket));
    return parent->create_members(std::move(std::get<MembersRequest>(request)));
  }
};

/// The parent's config, with what was given instead. What is wrong on this rank alone is noted in the request, since the
/// others wait for it. request_of: gives the request by a config.
template <typename Request, typename RequestOf>
Result<ChildCreation> prepare_child(tutti_comm& comm, Communicator& parent, const tutti_config* config,
                                    const RequestOf& request_of) {
  const auto given = read_config(config);
  const Status checked = given.ok() ? check_config(*given) : given.status();
  Result<Request> request = request_of(config != nullptr && checked.ok() ? &*given : nullptr);
  ChildCreation child;
  child.parent = &parent;
  const bool own = config != nullptr && given.ok();
  child.non_blocking = own ? given->non_blocking != 0 : comm.never_blocks;
  child.never_blocks = own ? never_blocks(*given) : comm.never_blocks;
  if (request.ok() && checked.ok()) {
    child.request = std::move(*request);
    return child;
  }
  Result<Request> plain = request_of(nullptr);
  if (!plain.ok()) return plain.status();
  plain->so_far = checked.ok() ? request.status() : checked;
  child.request = std::move(*plain);
  return child;
}

/// The group's end makes it, in the order of entry.
void hold_child(std::shared_ptr<ChildCreation> child, std::unique_ptr<tutti_comm> comm, tutti_comm** out) {
  HeldCreation held{out, std::move(comm), child->parent, child->parent->hook()};
  held.enter = [child] { return child->enter(); };
  held.make = [child](tutti_comm& handle, const std::atomic<bool>& given_up) {
    settle(handle, [&] { return child->make(&given_up, {}); });
    return handle.creation_error;
  };
  hold_creation(std::move(held));
}

/// Takes part in a split without a group, in a thread that the parent's handle keeps. Errors: as start_thread.
Status split_in_background(tutti_comm& parent, const std::shared_ptr<ChildCreation>& child) {
  const std::lock_guard lock(parent.splits_mutex);
  std::erase_if(parent.background_splits, [](tutti_comm::BackgroundSplit& one) {
    // Acquire: pairs with the thread's last store; what is left of it is its end.
    if (!one.over->load(std::memory_order_acquire)) return false;
    one.thread.join();
    return true;
  });
  auto& own =
      parent.background_splits.emplace_back(tutti_comm::BackgroundSplit{std::make_shared<std::atomic<bool>>(false), {}});
  Status started = start_thread(own.thread, "tutti creation", [child, over = own.over] {
    // What it fails with fails the parent, too, or is every other rank's to tell.
    static_cast<void>(catching([&] { return child->make(nullptr, {}).status(); }));
    over->store(true, std::memory_order_release);  // release: see above
  });
  if (!started.ok()) parent.background_splits.pop_back();
  return started;
}

/// Makes it in a thread of the library's. has_group: there is a handle to give out.
Status begin_child(tutti_comm& parent, const std::shared_ptr<ChildCreation>& child, std::unique_ptr<tutti_comm> comm,
                   bool has_group, tutti_comm** out) {
  const Status begun(TUTTI_IN_PROGRESS, "the communicator is being made");  // now: nothing may fail once the thread runs
  if (Status entered = child->enter(); !entered.ok()) return entered;
  const Status started =
      has_group
          ? start_thread(comm->creation, "tutti creation",
                         [made = comm.get(), child] { settle(*made, [&] { return child->make(&made->interrupted, {}); }); })
          : split_in_background(parent, child);
  if (!started.ok()) {
    child->common().so_far = started;  // the others are told
    const auto made = child->make(nullptr, child->parent->hook());
    return made.ok() ? started : made.status();
  }
  if (has_group) *out = comm.release();
  return begun;
}

/// Makes it now, in the background, or at the end of a group.
Status create_child(tutti_comm& parent, ChildCreation prepared, tutti_comm** out) {
  const auto child = std::make_shared<ChildCreation>(std::move(prepared));
  if (group_is_open() && !child->common().so_far.ok()) return child->common().so_far;
  auto handle = std::make_unique<tutti_comm>();
  handle->pid = this_process();
  handle->rank = child->rank;
  handle->ranks = child->ranks;
  handle->is_split = child->rank < 0;
  handle->never_blocks = child->never_blocks;
  if (group_is_open()) {
    if (Status status = child->parent->legal(); !status.ok()) return status;
    hold_child(child, std::move(handle), out);
    return {};
  }
  const auto* const split = std::get_if<SplitRequest>(&child->request);
  const bool has_group = split == nullptr || split->color >= 0;
  if (child->non_blocking) return begin_child(parent, child, std::move(handle), has_group, out);
  if (Status entered = child->enter(); !entered.ok()) return entered;
  settle(*handle, [&] { return child->make(nullptr, child->parent->hook()); });
  if (!handle->creation_error.ok()) return handle->creation_error;
  if (has_group) *out = handle.release();
  return {};
}

Status split_handle(tutti_comm* comm, int color, int key, tutti_comm** out, const tutti_config* config) {
  if (out == nullptr) return invalid("tutti_comm_split needs a place for the communicator");
  *out = nullptr;
  auto parent = usable(comm);
  if (!parent.ok()) return parent.status();
  auto child = prepare_child<SplitRequest>(*comm, **parent, config, [&](const tutti_config* given) -> Result<SplitRequest> {
    if (given != nullptr && given->global_ranks != nullptr) {
      return invalid("tutti_config.global_ranks was given to a split, whose ranks are not known yet",
                     "Leave it NULL: what is split off goes by the parent's.");
    }
    return (*parent)->split_request(color, key, given);
  });
  return child.ok() ? create_child(*comm, std::move(*child), out) : child.status();
}

Status create_members(tutti_comm* comm, const int* ranks, int n, std::uint64_t tag, tutti_comm** out,
                      const tutti_config* config) {
  if (out == nullptr) return invalid("tutti_comm_create_members needs a place for the communicator");
  *out = nullptr;
  auto parent = usable(comm);
  if (!parent.ok()) return parent.status();
  if (ranks == nullptr || n < 1) return invalid("tutti_comm_create_members needs its members");
  const std::span members(ranks, static_cast<std::size_t>(n));
  const auto own = static_cast<int>(std::ranges::find(members, (*parent)->rank()) - members.begin());
  if (Status status = (*parent)->check_members(members); !status.ok()) return status;
  auto child = prepare_child<MembersRequest>(*comm, **parent, config, [&](const tutti_config* given) {
    auto request = (*parent)->members_request(members, tag, given);
    if (request.ok() && given != nullptr && given->global_ranks != nullptr) request->global = given->global_ranks[own];
    return request;
  });
  if (!child.ok()) return child.status();
  child->rank = own;
  child->ranks = n;
  return create_child(*comm, std::move(*child), out);
}

/// Rank or size, which a split tells once it is over.
Status place_in(const tutti_comm& comm, int& place, const int& known) {
  if (comm.is_split && !comm.is_settled()) return Status(TUTTI_IN_PROGRESS, "the communicator is being split off");
  if (comm.is_split && comm.rank < 0) return comm.creation_error;
  place = known;
  return {};
}

/// Joins the threads that finalize and split: they end by their deadlines, or by the communicator's failure.
void join_threads(tutti_comm& comm) {
  if (comm.finalizing.joinable()) comm.finalizing.join();
  std::list<tutti_comm::BackgroundSplit> splits;
  {
    const std::lock_guard lock(comm.splits_mutex);
    splits.swap(comm.background_splits);
  }
  for (tutti_comm::BackgroundSplit& one : splits) one.thread.join();
}

Status finalize_handle(tutti_comm* comm) {
  if (Status status = refuse_in_group("tutti_comm_finalize"); !status.ok()) return status;
  auto parent = usable(comm);
  if (!parent.ok()) return parent.status();
  Communicator& communicator = **parent;
  if (!comm->never_blocks) {
    Status status = communicator.begin_finalize();
    return status.ok() ? communicator.finish_finalize(communicator.hook()) : status;
  }
  const Status begun(TUTTI_IN_PROGRESS, "the communicator is being finalized");  // now: nothing may fail once it has begun
  if (Status status = communicator.begin_finalize(); !status.ok()) return status;
  const Status started = start_thread(comm->finalizing, "tutti finalize", [&communicator] {
    // What it fails with the communicator keeps.
    static_cast<void>(catching([&] { return communicator.finish_finalize({}); }));
  });
  if (!started.ok()) return communicator.finish_finalize(communicator.hook());
  return begun;
}

Status destroy_handle(tutti_comm* comm) {
  if (comm == nullptr) return {};
  // A forked child lets go of its copy without a word to the parent's peers, and has no thread to wait for.
  if (comm->pid != this_process()) {
    static_cast<void>(comm->communicator.release());
    for (std::thread* thread : {&comm->creation, &comm->finalizing}) {
      if (thread->joinable()) new std::thread(std::move(*thread));
    }
    for (tutti_comm::BackgroundSplit& one : comm->background_splits) new std::thread(std::move(one.thread));
    delete comm;
    return {};
  }
  if (comm->is_settled() && group_holds(comm->communicator.get())) {
    return Status(TUTTI_INVALID_USAGE,
                  "tutti_comm_destroy was called while an open group holds operations or splits of the communicator",
                  "Call tutti_group_end first.");
  }
  const NoCancellation whole;
  comm->interrupted.store(true, std::memory_order_relaxed);  // relaxed: carries no data
  if (comm->creation.joinable()) comm->creation.join();
  join_threads(*comm);
  delete comm;
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
    if (id == nullptr || text == nullptr)
      return tutti::invalid("tutti_unique_id_to_text needs an id and room for its text");
    const std::string printed = tutti::id_to_text(*id);
    std::memcpy(text, printed.c_str(), printed.size() + 1);
    return Status();
  });
}

tutti_status tutti_unique_id_from_text(const char* text, tutti_unique_id* id) {
  return tutti::guarded([&]() -> Status {
    if (id == nullptr || text == nullptr)
      return tutti::invalid("tutti_unique_id_from_text needs a text and room for the id");
    auto parsed = tutti::id_from_text(text);
    if (parsed.ok()) *id = *parsed;
    return parsed.status();
  });
}

tutti_status tutti_comm_create(tutti_comm** comm, int ranks, const tutti_unique_id* id, int rank,
                               const tutti_config* config) {
  return tutti::guarded_creation([&]() -> Status {
    auto creation = tutti::prepare(comm, ranks, rank, false, config);
    if (!creation.ok()) return creation.status();
    if (id == nullptr) return tutti::invalid("tutti_comm_create needs an id", "Make one with tutti_get_unique_id.");
    creation->id = *id;
    return tutti::create(comm, std::move(*creation));
  });
}

tutti_status tutti_comm_create_address(tutti_comm** comm, const char* address, int ranks, int rank,
                                       const tutti_config* config) {
  return tutti::guarded_creation([&]() -> Status {
    auto creation = tutti::prepare(comm, ranks, rank, true, config);
    if (!creation.ok()) return creation.status();
    if (address == nullptr || *address == 0)
      return tutti::invalid("tutti_comm_create_address needs an address", "Pass env:// for example.");
    creation->request.address = address;
    return tutti::create(comm, std::move(*creation));
  });
}

tutti_status tutti_comm_create_bootstrap(tutti_comm** comm, int ranks, int rank, const tutti_bootstrap* bootstrap,
                                         const tutti_config* config) {
  return tutti::guarded_creation([&]() -> Status {
    auto creation = tutti::prepare(comm, ranks, rank, false, config);
    if (!creation.ok()) return creation.status();
    const auto read = tutti::read_bootstrap(bootstrap);
    if (!read.ok()) return read.status();
    creation->request.bootstrap = &read.value();
    creation->config.non_blocking = 0;  // the caller's function may be called during this call only
    return tutti::create(comm, std::move(*creation));
  });
}

tutti_status tutti_comm_create_all(tutti_comm** comms, int ranks, const tutti_config* config) {
  return tutti::guarded_creation([&] { return tutti::create_all(comms, ranks, config); });
}

tutti_status tutti_comm_split(tutti_comm* comm, int color, int key, tutti_comm** out, const tutti_config* config) {
  return tutti::guarded_operation([&] { return tutti::split_handle(comm, color, key, out, config); });
}

tutti_status tutti_comm_create_members(tutti_comm* comm, const int* ranks, int n, uint64_t tag, tutti_comm** out,
                                       const tutti_config* config) {
  return tutti::guarded_operation([&] { return tutti::create_members(comm, ranks, n, tag, out, config); });
}

tutti_status tutti_comm_set_name(tutti_comm* comm, const char* name) {
  return tutti::guarded([&]() -> Status {
    auto usable = tutti::usable(comm);
    if (!usable.ok()) return usable.status();
    if (name == nullptr) return tutti::invalid("tutti_comm_set_name needs a name");
    (*usable)->set_name(name);
    return {};
  });
}

tutti_status tutti_comm_finalize(tutti_comm* comm) {
  return tutti::guarded([&] { return tutti::finalize_handle(comm); });
}

tutti_status tutti_comm_destroy(tutti_comm* comm) {
  return tutti::guarded([&] { return tutti::destroy_handle(comm); });
}

tutti_status tutti_comm_abort(tutti_comm* comm) {
  return tutti::guarded([&]() -> Status {
    if (comm == nullptr) return tutti::invalid("the communicator is NULL");
    if (comm->pid != tutti::this_process()) {
      return Status(TUTTI_INVALID_USAGE, "a forked child cannot abort its parent's communicator", "Only destroy it there.");
    }
    comm->interrupted.store(true, std::memory_order_relaxed);  // relaxed: carries no data
    // Acquire, where it is settled, for the communicator; nothing is released, as it tells settle nothing but itself.
    auto before = tutti::CreationPhase::under_way;
    const bool in_time =
        comm->phase.compare_exchange_strong(before, tutti::CreationPhase::aborted, std::memory_order_acquire);
    if (!in_time && before == tutti::CreationPhase::settled && comm->communicator != nullptr) comm->communicator->abort();
    return {};
  });
}

tutti_status tutti_comm_size(const tutti_comm* comm, int* ranks) {
  return tutti::guarded([&]() -> Status {
    if (comm == nullptr || ranks == nullptr) return tutti::invalid("tutti_comm_size needs a communicator and a place");
    return tutti::place_in(*comm, *ranks, comm->ranks);
  });
}

tutti_status tutti_comm_rank(const tutti_comm* comm, int* rank) {
  return tutti::guarded([&]() -> Status {
    if (comm == nullptr || rank == nullptr) return tutti::invalid("tutti_comm_rank needs a communicator and a place");
    return tutti::place_in(*comm, *rank, comm->rank);
  });
}

tutti_status tutti_comm_state(const tutti_comm* comm, tutti_comm_state_kind* state) {
  return tutti::guarded([&]() -> Status {
    if (comm == nullptr || state == nullptr) return tutti::invalid("tutti_comm_state needs a communicator and a place");
    *state = !comm->is_settled()             ? TUTTI_COMM_CREATING
             : comm->communicator == nullptr ? TUTTI_COMM_FAILED
                                             : static_cast<tutti_comm_state_kind>(comm->communicator->state());
    return {};
  });
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

tutti_status tutti_comm_memory(const tutti_comm* comm, tutti_memory_use* use) {
  return tutti::guarded([&]() -> Status {
    auto usable = tutti::usable(const_cast<tutti_comm*>(comm));  // only read
    if (!usable.ok()) return usable.status();
    if (use == nullptr || !tutti::has_size(*use)) {
      return tutti::invalid("tutti_comm_memory needs a tutti_memory_use whose size is set");
    }
    tutti_memory_use copy = (*usable)->memory_use();
    copy.size = use->size;
    std::memcpy(use, &copy, std::min(use->size, sizeof copy));
    return {};
  });
}

tutti_status tutti_comm_last_choice(const tutti_comm* comm, tutti_comm_choice* choice) {
  return tutti::guarded([&]() -> Status {
    auto usable = tutti::usable(const_cast<tutti_comm*>(comm));  // only read
    if (!usable.ok()) return usable.status();
    if (choice == nullptr || !tutti::has_size(*choice)) {
      return tutti::invalid("tutti_comm_last_choice needs a choice whose size is set");
    }
    const tutti_comm_choice made = {choice->size, (*usable)->last_algorithm(), (*usable)->transport_names(),
                                    (*usable)->link_names()};
    std::memcpy(choice, &made, std::min(choice->size, sizeof made));
    return {};
  });
}
