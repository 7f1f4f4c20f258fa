#include "transports/faulty/faulty.h"

#include <signal.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <list>
#include <mutex>
#include <string>
#include <utility>

#include "src/base/clock.h"
#include "src/base/made_once.h"
#include "src/base/per_process.h"
#include "src/base/transport_helpers.h"
#include "transports/registry.h"

namespace tutti::faulty {
namespace {

struct Orders {
  const tutti_transport* inner = nullptr;
  std::vector<InjectedFault> faults;
};
Orders& orders() {
  static constinit MadeOnce<Orders> one;
  return one.get();
}

struct Pending {
  InjectedFault fault;
  bool struck = false;
  std::uint64_t until_ns = 0;  ///< of a delay
};

struct Link;
struct Endpoint {
  const tutti_transport* inner = nullptr;
  tutti_endpoint* endpoint = nullptr;
  int rank = -1;
  std::array<std::uint64_t, kPoints> calls{};
  std::vector<Pending> pending;
  std::list<Link> links;
};
struct Link {
  Endpoint* owner;
  tutti_link* link;  ///< null once it is broken
  std::string why;
  tutti_quiesced quiesced = TUTTI_QUIESCED;  ///< once it is broken: what its quiescing came to
};

Endpoint& of(tutti_endpoint* e) { return *reinterpret_cast<Endpoint*>(e); }
Link& of(tutti_link* l) { return *reinterpret_cast<Link*>(l); }
const tutti_transport& inner(Link& link) { return *link.owner->inner; }

void break_off(Endpoint& e, Link* link, const InjectedFault& fault) {
  if (link == nullptr || link->link == nullptr) return;
  link->why = "the link was broken on purpose after " + std::to_string(fault.after) + " calls (TUTTI_FAULTY)";
  tutti_link* const broken = std::exchange(link->link, nullptr);
  link->quiesced = TUTTI_QUARANTINED;  // where the next line does not return
  link->quiesced = e.inner->quiesce(broken);
  if (link->quiesced == TUTTI_QUIESCE_NOT_YET) link->quiesced = TUTTI_QUARANTINED;
  e.inner->close_link(broken);
}

/// Counts a call; whether it may go on.
bool pass(Endpoint& e, Point point, Link* link) {
  const std::uint64_t call = e.calls[static_cast<std::size_t>(point)]++;
  bool go = true;
  for (Pending& p : e.pending) {
    if (p.fault.point != point || call < p.fault.after || (p.struck && p.fault.action != FaultAction::kDelay)) continue;
    if (p.fault.action == FaultAction::kKill) ::raise(SIGKILL);
    if (p.fault.action == FaultAction::kBreak) break_off(e, link, p.fault);
    go = go && (p.fault.action != FaultAction::kBreak || link != nullptr);
    if (p.fault.action == FaultAction::kDelay) {
      if (!p.struck) p.until_ns = now_ns() + p.fault.delay_ns;
      go = go && now_ns() >= p.until_ns;
    }
    p.struck = true;
  }
  return go;
}

bool sound(Link& link, Point point) {
  return link.link != nullptr && pass(*link.owner, point, &link) && link.link != nullptr;
}

// Ranks that are threads of one process open it at once. Until then nobody reads what is written here.
Status read_environment() {
  static constinit PerProcess<std::mutex> mutex;
  const std::lock_guard lock(mutex.get());
  if (orders().inner != nullptr) return {};
  const char* const text = std::getenv("TUTTI_FAULTY");
  const std::string_view all = text != nullptr ? text : "shm:";
  const std::string_view name = all.substr(0, all.find(':'));
  for (const tutti_transport* t : builtin_transports()) {
    if (name == t->name) orders().inner = t;
  }
  if (orders().inner == nullptr) {
    return Status(TUTTI_INVALID_ARGUMENT,
                  "TUTTI_FAULTY names the transport " + std::string(name) + ", which is not built in");
  }
  if (name.size() + 1 >= all.size()) return {};
  Result<std::vector<InjectedFault>> faults = parse_faults(all.substr(name.size() + 1));
  if (!faults.ok()) return faults.status();
  orders().faults = std::move(*faults);
  return {};
}

int viable(char* why, std::size_t n) {
  const Status status = read_environment();
  if (status.ok()) return orders().inner->viable(why, n);
  write_why(why, n, status.text());
  return 0;
}

tutti_status open(const tutti_endpoint_config* config, tutti_endpoint** endpoint, char* why, std::size_t n) {
  const Status status = read_environment();
  if (!status.ok()) {
    write_why(why, n, status.text());
    return status.code();
  }
  auto* const e = new Endpoint;
  e->inner = orders().inner;
  e->rank = config->rank;
  for (const InjectedFault& fault : orders().faults) {
    if (fault.rank < 0 || fault.rank == config->rank) e->pending.push_back({fault});
  }
  const tutti_status opened = e->inner->open(config, &e->endpoint, why, n);
  if (opened == TUTTI_SUCCESS) {
    *endpoint = reinterpret_cast<tutti_endpoint*>(e);
  } else {
    delete e;
  }
  return opened;
}

void close(tutti_endpoint* e) {
  of(e).inner->close(of(e).endpoint);
  delete &of(e);
}

std::size_t describe(tutti_endpoint* e, void* descriptor) { return of(e).inner->describe(of(e).endpoint, descriptor); }

int reach(tutti_endpoint* e, int peer, const void* descriptor, std::size_t length, tutti_reach* reach, char* why,
          std::size_t n) {
  return of(e).inner->reach(of(e).endpoint, peer, descriptor, length, reach, why, n);
}

tutti_link_result progress(tutti_endpoint* e) {
  return pass(of(e), Point::kProgress, nullptr) ? of(e).inner->progress(of(e).endpoint) : TUTTI_LINK_NOT_YET;
}
int event_fd(tutti_endpoint* e) { return of(e).inner->event_fd(of(e).endpoint); }
void arm(tutti_endpoint* e, int sleeping) { of(e).inner->arm(of(e).endpoint, sleeping); }
void properties(tutti_endpoint* e, tutti_endpoint_properties* properties) {
  of(e).inner->properties(of(e).endpoint, properties);
}

/// Whether a call that opens, registers or proves something fails on purpose; then `why` says so.
bool refuses(Endpoint& e, Point point, char* why, std::size_t n) {
  if (pass(e, point, nullptr)) return false;
  write_why(why, n, "this process is refused it on purpose. Take that out of TUTTI_FAULTY");
  return true;
}

tutti_link_result probe(tutti_endpoint* e, int peer, const void* descriptor, std::size_t length, char* why, std::size_t n) {
  if (refuses(of(e), Point::kProbe, why, n)) {
    const bool breaks = std::ranges::any_of(of(e).pending, [](const Pending& p) {
      return p.fault.point == Point::kProbe && p.fault.action == FaultAction::kBreak && p.struck;
    });
    return breaks ? TUTTI_LINK_BROKEN : TUTTI_LINK_NOT_YET;
  }
  const auto probe = of(e).inner->probe;
  return probe != nullptr ? probe(of(e).endpoint, peer, descriptor, length, why, n) : TUTTI_LINK_OK;
}

void explain(tutti_endpoint* e, int peer, char* text, std::size_t n) {
  write_why(text, n, "links to rank " + std::to_string(peer) + " fail as TUTTI_FAULTY says, around " + of(e).inner->name);
}

tutti_status open_link(tutti_endpoint* e, const tutti_link_params* params, tutti_link** link, char* why, std::size_t n) {
  if (refuses(of(e), Point::kOpen, why, n)) return TUTTI_SYSTEM_ERROR;
  tutti_link* opened = nullptr;
  const tutti_status status = of(e).inner->open_link(of(e).endpoint, params, &opened, why, n);
  if (status != TUTTI_SUCCESS) return status;
  of(e).links.push_back({&of(e), opened, {}, TUTTI_QUIESCED});
  *link = reinterpret_cast<tutti_link*>(&of(e).links.back());
  return status;
}

tutti_link_result link_state(tutti_link* l, tutti_link_state* state) {
  return of(l).link != nullptr ? inner(of(l)).link_state(of(l).link, state) : TUTTI_LINK_BROKEN;
}
tutti_link_result failure(tutti_link* l, char* why, std::size_t n) {
  if (of(l).link != nullptr) return inner(of(l)).failure(of(l).link, why, n);
  write_why(why, n, of(l).why);
  return TUTTI_LINK_BROKEN;
}
tutti_quiesced quiesce(tutti_link* l) { return of(l).link != nullptr ? inner(of(l)).quiesce(of(l).link) : of(l).quiesced; }
void close_link(tutti_link* l) {
  Link& link = of(l);
  if (link.link != nullptr) inner(link).close_link(link.link);
  link.owner->links.remove_if([&](const Link& other) { return &other == &link; });
}
void link_stats(tutti_link* l, tutti_link_stats* stats) {
  if (of(l).link != nullptr && inner(of(l)).link_stats != nullptr) inner(of(l)).link_stats(of(l).link, stats);
}

tutti_link_result reserve(tutti_link* l, std::uint64_t bytes, std::uint64_t fingerprint, tutti_room* room) {
  if (sound(of(l), Point::kReserve)) return inner(of(l)).reserve(of(l).link, bytes, fingerprint, room);
  return of(l).link != nullptr ? TUTTI_LINK_NOT_YET : TUTTI_LINK_BROKEN;
}
tutti_link_result commit(tutti_link* l, std::uint64_t bytes, std::uint64_t fingerprint) {
  if (of(l).link != nullptr) (void)pass(*of(l).owner, Point::kCommit, &of(l));
  return of(l).link != nullptr ? inner(of(l)).commit(of(l).link, bytes, fingerprint) : TUTTI_LINK_BROKEN;
}
/// In its parts, where faults strike.
tutti_link_result send(tutti_link* l, const void* source, std::uint64_t bytes, std::uint64_t fingerprint) {
  return tutti_send_in_parts(reserve, commit, l, source, bytes, fingerprint);
}
tutti_link_result offer(tutti_link* l, const tutti_region* region, const void* source, std::uint64_t bytes,
                        std::uint64_t fingerprint) {
  if (of(l).link != nullptr) (void)pass(*of(l).owner, Point::kOffer, &of(l));
  if (of(l).link == nullptr) return TUTTI_LINK_BROKEN;
  if (inner(of(l)).offer == nullptr) return TUTTI_LINK_NOT_YET;
  return inner(of(l)).offer(of(l).link, region, source, bytes, fingerprint);
}
tutti_link_result flushed(tutti_link* l) {
  return of(l).link != nullptr ? inner(of(l)).flushed(of(l).link) : TUTTI_LINK_BROKEN;
}
tutti_link_result view(tutti_link* l, tutti_message* message) {
  if (sound(of(l), Point::kView)) return inner(of(l)).view(of(l).link, message);
  return of(l).link != nullptr ? TUTTI_LINK_NOT_YET : TUTTI_LINK_BROKEN;
}
tutti_link_result revalidate(tutti_link* l) {
  if (of(l).link == nullptr) return TUTTI_LINK_BROKEN;
  return inner(of(l)).revalidate != nullptr ? inner(of(l)).revalidate(of(l).link) : TUTTI_LINK_OK;
}
void release(tutti_link* l) {
  if (of(l).link != nullptr) (void)pass(*of(l).owner, Point::kRelease, &of(l));
  if (of(l).link != nullptr) inner(of(l)).release(of(l).link);
}
tutti_link_result grant(tutti_link* l, const tutti_region* region, void* target, std::uint64_t bytes,
                        std::uint64_t fingerprint) {
  if (of(l).link == nullptr) return TUTTI_LINK_BROKEN;
  if (inner(of(l)).grant == nullptr) return TUTTI_LINK_NOT_YET;
  return inner(of(l)).grant(of(l).link, region, target, bytes, fingerprint);
}
tutti_status register_memory(tutti_endpoint* e, const tutti_memory* memory, tutti_region* region, char* why,
                             std::size_t n) {
  if (refuses(of(e), Point::kRegister, why, n)) return TUTTI_SYSTEM_ERROR;
  if (of(e).inner->register_memory != nullptr) {
    return of(e).inner->register_memory(of(e).endpoint, memory, region, why, n);
  }
  write_why(why, n, std::string(of(e).inner->name) + " registers no memory");
  return TUTTI_UNSUPPORTED;
}
void unregister_memory(tutti_endpoint* e, tutti_region* region) {
  if (of(e).inner->unregister_memory != nullptr) of(e).inner->unregister_memory(of(e).endpoint, region);
}

bool number(std::string_view text, std::uint64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

template <typename T, std::size_t n>
bool word(std::string_view text, const std::array<std::string_view, n>& names, T& value) {
  for (std::size_t i = 0; i < n; ++i) {
    if (text == names[i]) {
      value = static_cast<T>(i);
      return true;
    }
  }
  return false;
}

bool take(InjectedFault& fault, std::string_view name, std::string_view text) {
  static constexpr std::array<std::string_view, kPoints> kPointNames{"reserve",  "commit", "offer",    "view", "release",
                                                                     "progress", "open",   "register", "probe"};
  static constexpr std::array<std::string_view, 3> kActionNames{"delay", "break", "kill"};
  std::uint64_t value = 0;
  if (name == "point") return word(text, kPointNames, fault.point);
  if (name == "action") return word(text, kActionNames, fault.action);
  if (!number(text, value)) return false;
  if (name == "rank") fault.rank = static_cast<int>(value);
  if (name == "after") fault.after = value;
  if (name == "ms") fault.delay_ns = value * 1'000'000;
  return name == "rank" || name == "after" || name == "ms";
}

}  // namespace

Result<std::vector<InjectedFault>> parse_faults(std::string_view text) {
  std::vector<InjectedFault> faults;
  while (!text.empty()) {
    std::string_view one = text.substr(0, text.find(';'));
    text.remove_prefix(std::min(text.size(), one.size() + 1));
    InjectedFault fault;
    while (!one.empty()) {
      const std::string_view pair = one.substr(0, one.find(','));
      one.remove_prefix(std::min(one.size(), pair.size() + 1));
      const std::size_t equals = pair.find('=');
      if (equals == std::string_view::npos || !take(fault, pair.substr(0, equals), pair.substr(equals + 1))) {
        return Status(TUTTI_INVALID_ARGUMENT, "the fault's \"" + std::string(pair) + "\" is not understood",
                      "Write rank=N, point=reserve|commit|offer|view|release|progress|open|register|probe, after=N, "
                      "action=delay|break|kill, ms=N");
      }
    }
    faults.push_back(fault);
  }
  return faults;
}

void configure(const tutti_transport* inner_transport, std::vector<InjectedFault> faults) {
  orders() = {inner_transport, std::move(faults)};
}

}  // namespace tutti::faulty

extern "C" __attribute__((visibility("default"))) const tutti_transport TUTTI_TRANSPORT_PLUGIN = {
    .size = sizeof(tutti_transport),
    .abi = TUTTI_TRANSPORT_ABI,
    .name = "faulty",
    .viable = tutti::faulty::viable,
    .open = tutti::faulty::open,
    .close = tutti::faulty::close,
    .properties = tutti::faulty::properties,
    .describe = tutti::faulty::describe,
    .reach = tutti::faulty::reach,
    .probe = tutti::faulty::probe,
    .explain = tutti::faulty::explain,
    .progress = tutti::faulty::progress,
    .event_fd = tutti::faulty::event_fd,
    .arm = tutti::faulty::arm,
    .open_link = tutti::faulty::open_link,
    .link_state = tutti::faulty::link_state,
    .failure = tutti::faulty::failure,
    .quiesce = tutti::faulty::quiesce,
    .close_link = tutti::faulty::close_link,
    .link_stats = tutti::faulty::link_stats,
    .reserve = tutti::faulty::reserve,
    .commit = tutti::faulty::commit,
    .send = tutti::faulty::send,
    .offer = tutti::faulty::offer,
    .flushed = tutti::faulty::flushed,
    .view = tutti::faulty::view,
    .revalidate = tutti::faulty::revalidate,
    .release = tutti::faulty::release,
    .grant = tutti::faulty::grant,
    .register_memory = tutti::faulty::register_memory,
    .unregister_memory = tutti::faulty::unregister_memory,
    .flush = nullptr,
    .device_link = nullptr,
};

const tutti_transport* tutti::faulty::transport() { return &TUTTI_TRANSPORT_PLUGIN; }
