#include "transports/faulty/faulty.h"

#include <signal.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <list>
#include <mutex>
#include <string>
#include <utility>

#include "src/base/clock.h"
#include "transports/registry.h"

namespace tutti::faulty {
namespace {

struct Orders {
  const tutti_transport* inner = nullptr;
  std::vector<InjectedFault> faults;
};
Orders& orders() {
  static Orders one;
  return one;
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
  bool refuses = false;  ///< the last call that opens or registers something
  std::list<Link> links;
};
struct Link {
  Endpoint* owner;
  tutti_link* link;  ///< null once it is broken
  std::string why;
  tutti_quiesced quiesced = TUTTI_QUIESCED;  ///< what closing it came to
};

Endpoint& of(tutti_endpoint* e) { return *reinterpret_cast<Endpoint*>(e); }
Link& of(tutti_link* l) { return *reinterpret_cast<Link*>(l); }
const tutti_transport& inner(Link& link) { return *link.owner->inner; }

void say(char* why, std::size_t n, const std::string& text) {
  if (why != nullptr && n > 0) std::snprintf(why, n, "%s", text.c_str());
}

void break_off(Endpoint& e, Link* link, const InjectedFault& fault) {
  if (link == nullptr || link->link == nullptr) return;
  link->why = "the link was broken on purpose after " + std::to_string(fault.after) + " calls (TUTTI_FAULTY)";
  link->quiesced = e.inner->close_link(std::exchange(link->link, nullptr));
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
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
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
  say(why, n, status.text());
  return 0;
}

tutti_status open(const tutti_endpoint_config* config, tutti_endpoint** endpoint, char* why, std::size_t n) {
  const Status status = read_environment();
  if (!status.ok()) {
    say(why, n, status.text());
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
int event_fd(tutti_endpoint* e) { return of(e).inner->event_fd != nullptr ? of(e).inner->event_fd(of(e).endpoint) : -1; }
void arm(tutti_endpoint* e, int sleeping) {
  if (of(e).inner->arm != nullptr) of(e).inner->arm(of(e).endpoint, sleeping);
}

/// Whether a call that opens or registers something fails on purpose.
bool refuses(Endpoint& e, Point point) {
  e.refuses = !pass(e, point, nullptr);
  return e.refuses;
}

void refusal(tutti_endpoint* e, char* why, std::size_t n) {
  if (of(e).refuses) return say(why, n, "this process is refused it on purpose. Take that out of TUTTI_FAULTY");
  say(why, n, "");
  if (of(e).inner->refusal != nullptr) of(e).inner->refusal(of(e).endpoint, why, n);
}

tutti_status keep(Endpoint& e, tutti_status status, tutti_link* inner_link, tutti_link** link) {
  if (status != TUTTI_SUCCESS) return status;
  e.links.push_back({&e, inner_link, {}, TUTTI_QUIESCED});
  *link = reinterpret_cast<tutti_link*>(&e.links.back());
  return status;
}
tutti_status open_sender(tutti_endpoint* e, int peer, const void* descriptor, std::size_t length, std::uint32_t channel,
                         std::uint32_t slots, std::uint64_t slot_bytes, tutti_link** link) {
  if (refuses(of(e), Point::kOpen)) return TUTTI_SYSTEM_ERROR;
  tutti_link* opened = nullptr;
  const tutti_status status =
      of(e).inner->open_sender(of(e).endpoint, peer, descriptor, length, channel, slots, slot_bytes, &opened);
  return keep(of(e), status, opened, link);
}
tutti_status open_receiver(tutti_endpoint* e, int peer, const void* descriptor, std::size_t length, std::uint32_t channel,
                           std::uint32_t slots, std::uint64_t slot_bytes, tutti_link** link) {
  if (refuses(of(e), Point::kOpen)) return TUTTI_SYSTEM_ERROR;
  tutti_link* opened = nullptr;
  const tutti_status status =
      of(e).inner->open_receiver(of(e).endpoint, peer, descriptor, length, channel, slots, slot_bytes, &opened);
  return keep(of(e), status, opened, link);
}

tutti_link_result link_state(tutti_link* l, tutti_link_state* state) {
  return of(l).link != nullptr ? inner(of(l)).link_state(of(l).link, state) : TUTTI_LINK_BROKEN;
}
tutti_link_result failure(tutti_link* l, char* why, std::size_t n) {
  if (of(l).link != nullptr) return inner(of(l)).failure(of(l).link, why, n);
  say(why, n, of(l).why);
  return TUTTI_LINK_BROKEN;
}
tutti_quiesced close_link(tutti_link* l) {
  Link& link = of(l);
  const tutti_quiesced result = link.link != nullptr ? inner(link).close_link(link.link) : link.quiesced;
  link.owner->links.remove_if([&](const Link& other) { return &other == &link; });
  return result;
}

tutti_quiesced withdraw(tutti_link* l) {
  Link& link = of(l);
  if (link.link == nullptr) return link.quiesced;
  // Without such an operation the closing answers.
  return inner(link).withdraw != nullptr ? inner(link).withdraw(link.link) : TUTTI_QUIESCED;
}

void* reserve(tutti_link* l, std::uint64_t bytes, std::uint64_t fingerprint) {
  return sound(of(l), Point::kReserve) ? inner(of(l)).reserve(of(l).link, bytes, fingerprint) : nullptr;
}
tutti_link_result commit(tutti_link* l, std::uint64_t bytes, std::uint64_t fingerprint) {
  if (of(l).link != nullptr) (void)pass(*of(l).owner, Point::kCommit, &of(l));
  return of(l).link != nullptr ? inner(of(l)).commit(of(l).link, bytes, fingerprint) : TUTTI_LINK_BROKEN;
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
int granted(tutti_link* l) {
  return of(l).link != nullptr && inner(of(l)).granted != nullptr ? inner(of(l)).granted(of(l).link) : 0;
}

int streams(tutti_link* l, std::uint64_t bytes) {
  return of(l).link != nullptr && inner(of(l)).streams != nullptr ? inner(of(l)).streams(of(l).link, bytes) : 0;
}

void step_aside(tutti_endpoint* e, int aside) {
  if (of(e).inner->step_aside != nullptr) of(e).inner->step_aside(of(e).endpoint, aside);
}
// Who cannot tell is nobody to look for.
int peer_is_aside(tutti_link* l) {
  return of(l).link != nullptr && inner(of(l)).peer_is_aside != nullptr ? inner(of(l)).peer_is_aside(of(l).link) : 1;
}

tutti_status register_region(tutti_endpoint* e, void* base, std::uint64_t bytes, int fd, std::uint64_t fd_offset,
                             tutti_region* region) {
  if (refuses(of(e), Point::kRegister)) return TUTTI_SYSTEM_ERROR;
  if (of(e).inner->register_region == nullptr) return TUTTI_UNSUPPORTED;
  return of(e).inner->register_region(of(e).endpoint, base, bytes, fd, fd_offset, region);
}
void unregister_region(tutti_endpoint* e, tutti_region* region) {
  if (of(e).inner->unregister_region != nullptr) of(e).inner->unregister_region(of(e).endpoint, region);
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
  static constexpr std::array<std::string_view, 8> kPointNames{"reserve", "commit",   "offer", "view",
                                                               "release", "progress", "open",  "register"};
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
                      "Write rank=N, point=reserve|commit|offer|view|release|progress|open|register, after=N, "
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

extern "C" __attribute__((visibility("default"))) const tutti_transport tutti_transport_plugin = {
    sizeof(tutti_transport),
    TUTTI_TRANSPORT_ABI,
    "faulty",
    tutti::faulty::viable,
    tutti::faulty::open,
    tutti::faulty::close,
    tutti::faulty::describe,
    tutti::faulty::reach,
    tutti::faulty::progress,
    tutti::faulty::event_fd,
    tutti::faulty::arm,
    tutti::faulty::open_sender,
    tutti::faulty::open_receiver,
    tutti::faulty::link_state,
    tutti::faulty::failure,
    tutti::faulty::close_link,
    tutti::faulty::reserve,
    tutti::faulty::commit,
    tutti::faulty::offer,
    tutti::faulty::flushed,
    tutti::faulty::view,
    tutti::faulty::release,
    tutti::faulty::grant,
    tutti::faulty::register_region,
    tutti::faulty::unregister_region,
    tutti::faulty::granted,
    tutti::faulty::withdraw,
    tutti::faulty::streams,
    tutti::faulty::step_aside,
    tutti::faulty::peer_is_aside,
    nullptr,  // so that messages are reserved and committed, where faults strike
    tutti::faulty::refusal,
};

const tutti_transport* tutti::faulty::transport() { return &tutti_transport_plugin; }
