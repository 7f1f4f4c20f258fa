#include "src/links/transport_set.h"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <utility>

#include "src/base/byte_codec.h"
#include "src/base/clock.h"
#include "src/base/exception_boundary.h"
#include "src/base/log.h"
#include "src/base/plural.h"
#include "src/base/socket.h"
#include "src/control/log_lines.h"
#include "src/links/transport_loader.h"
#include "src/tables/units.h"

namespace tutti {
namespace {

/// The message by which transports are compared.
constexpr double compared_bytes = 64 * 1024;

/// Whether a peer may reach into this process's memory by the link, or this process into its peer's. Memory that no region
/// holds is moved by the owner's own progress where the link needs that.
bool reaches_memory(const HostLink& link) {
  constexpr std::uint32_t registered = TUTTI_CAN_OFFER_REGISTERED | TUTTI_CAN_GRANT_REGISTERED | TUTTI_CAN_OFFER_DEVICE |
                                       TUTTI_CAN_GRANT_DEVICE | TUTTI_READS_PEER | TUTTI_WRITES_PEER;
  const std::uint32_t can = link.state.capabilities;
  return link.state.size != 0 && ((can & TUTTI_NEEDS_PROGRESS) == 0 || (can & registered) != 0);
}

void make_progress(EndpointGroup& group) {
  for (OpenEndpoint& endpoint : group.endpoints) static_cast<void>(endpoint.transport()->progress(endpoint.handle()));
}

/// By which a communicator keeps a link of its.
constexpr std::uint64_t key_of(int peer, std::uint32_t channel, bool sends) {
  return (static_cast<std::uint64_t>(peer) << 32) | (std::uint64_t{channel} << 1) | (sends ? 1 : 0);
}
constexpr bool sends_by(std::uint64_t key) { return (key & 1) != 0; }

float bits_to_float(std::uint32_t bits) { return std::bit_cast<float>(bits); }

/// One rank's reach of one peer by one transport; alpha < 0: none.
struct Reach {
  float alpha = -1;
  float beta = 0;
  LinkEstimate told = {};   ///< what the tuning table says instead, to the cost model; else the same
  bool reads_peer = false;  ///< TUTTI_READS_PEER
};

/// All ranks' reaches: by (rank, transport, peer).
class ReachTable {
 public:
  ReachTable(std::span<const std::vector<std::byte>> rows, std::size_t transports)
      : ranks_(rows.size()), transports_(transports) {
    cells_.resize(ranks_ * transports_ * ranks_);
    for (std::size_t r = 0; r < ranks_; ++r) {
      ByteReader reader(rows[r]);
      for (std::size_t i = 0; i < transports_ * ranks_; ++i) {
        Reach& cell = cells_[r * transports_ * ranks_ + i];
        const float alpha = bits_to_float(reader.u32());
        cell.beta = bits_to_float(reader.u32());
        cell.told.alpha = bits_to_float(reader.u32());
        cell.told.beta = bits_to_float(reader.u32());
        cell.reads_peer = reader.u32() != 0;
        cell.alpha = reader.ok() ? alpha : -1.0F;
      }
    }
  }
  const Reach& at(std::size_t rank, std::size_t transport, std::size_t peer) const {
    return cells_[(rank * transports_ + transport) * ranks_ + peer];
  }
  /// The transport of the pair, -1 for none: the quickest by the lower rank's numbers among those that reach both ways.
  int best(std::size_t a, std::size_t b) const {
    const std::size_t low = std::min(a, b);
    const std::size_t high = std::max(a, b);
    int best = -1;
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t t = 0; t < transports_; ++t) {
      const Reach& there = at(low, t, high);
      if (there.alpha < 0 || at(high, t, low).alpha < 0) continue;
      const double seconds = there.alpha + compared_bytes * there.beta;
      if (seconds < least) {
        least = seconds;
        best = static_cast<int>(t);
      }
    }
    return best;
  }

 private:
  std::size_t ranks_, transports_;
  std::vector<Reach> cells_;
};

}  // namespace

Transports::Transports(std::shared_ptr<EndpointSet> set, int rank, std::vector<int> members, const std::string& name)
    : set_(std::move(set)),
      rank_(rank),
      members_(std::move(members)),
      label_(log_label(name, rank, static_cast<int>(members_.size()))),
      obstacles_(members_.size()),
      writers_(members_.size()) {}

Transports::~Transports() {
  for (const TrafficClass traffic : {TrafficClass::collective, TrafficClass::point_to_point}) close_links(traffic);
}

Result<std::unique_ptr<Transports>> Transports::open(const Settings& settings, std::span<const unsigned char, 32> key,
                                                     int rank, int ranks, const std::string& name) {
  auto set = EndpointSet::open(settings, key, rank, ranks);
  if (!set.ok()) return set.status();
  std::vector<int> all(static_cast<std::size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  return std::unique_ptr<Transports>(new Transports(std::move(*set), rank, std::move(all), name));
}

std::unique_ptr<Transports> Transports::part_of(const Transports& whole, std::span<const int> members,
                                                std::uint64_t context, const std::string& name) {
  std::vector<int> in_set;
  for (const int member : members) in_set.push_back(whole.members_[static_cast<std::size_t>(member)]);
  const auto self = std::ranges::find(members, whole.rank_) - members.begin();
  std::unique_ptr<Transports> part(new Transports(whole.set_, static_cast<int>(self), std::move(in_set), name));
  part->in_whole_.assign(members.begin(), members.end());
  part->context_ = context;
  return part;
}

void Transports::share() {
  for (const TrafficClass traffic : {TrafficClass::collective, TrafficClass::point_to_point}) endpoints(traffic).share();
}

Result<std::vector<std::byte>> Transports::reach(std::span<const std::vector<std::byte>> descriptions, const View& view,
                                                 const Tuning& tuning, const WaitLimits& wait_limits) {
  set_->read_descriptions(descriptions);
  Paths paths(set_->opened().size(), Paths::value_type(members_.size()));
  for (std::size_t mine = 0; mine < paths.size(); ++mine) {
    for (int peer = 0; peer < set_->ranks(); ++peer) {
      tutti_reach there{};
      there.size = sizeof there;
      if (peer != rank_ && reaches(mine, peer, there)) paths[mine][static_cast<std::size_t>(peer)] = there;
    }
  }
  if (Status status = prove(paths, wait_limits); !status.ok()) return status;
  ByteWriter out;
  for (const auto& [name, mine] : set_->common()) {
    for (int peer = 0; peer < set_->ranks(); ++peer) {
      std::optional<tutti_reach> there;
      if (mine >= 0) there = paths[static_cast<std::size_t>(mine)][static_cast<std::size_t>(peer)];
      const LinkEstimate own{there ? there->latency : -1, there ? 1 / there->bandwidth : 0};
      LinkEstimate told = own;
      if (there) told = tuning.link(name, view.link_class(rank_, peer)).value_or(own);
      for (const double number : {own.alpha, own.beta, told.alpha, told.beta}) {
        out.u32(std::bit_cast<std::uint32_t>(static_cast<float>(number)));
      }
      out.u32(there ? there->capabilities & TUTTI_READS_PEER : 0);
    }
  }
  return out.take();
}

/// Takes away paths that do not prove themselves in time. Only neighbours at powers of two are asked, so that a creation
/// makes no more connections than a tree does. A fabric that joins those joins the others. All transports are asked at
/// once, within one deadline, so that ranks which have different ones keep in step.
Status Transports::prove(Paths& paths, const WaitLimits& wait_limits) {
  std::vector<std::pair<std::size_t, int>> pending;
  for (std::size_t mine = 0; mine < paths.size(); ++mine) {
    for (int peer = 0; set_->opened()[mine].transport->probe != nullptr && peer < set_->ranks(); ++peer) {
      const auto distance = static_cast<unsigned>(std::abs(peer - rank_));
      const bool neighbor =
          std::has_single_bit(distance) || std::has_single_bit(static_cast<unsigned>(set_->ranks()) - distance);
      if (neighbor && paths[mine][static_cast<std::size_t>(peer)]) pending.emplace_back(mine, peer);
    }
  }
  EndpointGroup& group = endpoints(TrafficClass::collective);
  const Deadline deadline = Deadline::in(std::min(longest_proof_ns, wait_limits.deadline.left_ns()));
  while (!pending.empty()) {
    const bool late = deadline.passed();
    std::erase_if(pending, [&](const std::pair<std::size_t, int>& path) {
      const auto [mine, peer] = path;
      const tutti_link_result result = probe(mine, peer, late, deadline);
      if (result == TUTTI_LINK_BROKEN) paths[mine][static_cast<std::size_t>(peer)].reset();
      return result != TUTTI_LINK_NOT_YET;
    });
    // The last answers, too, may have to be sent.
    make_progress(group);
    if (pending.empty()) break;
    if (Status status = wait_limits.check(); !status.ok()) return status;
    constexpr timespec nap{0, 1'000'000};
    ::nanosleep(&nap, nullptr);
  }
  return {};
}

/// Asks once. late: "not yet" is too late, and says why in the log like every path that fails.
tutti_link_result Transports::probe(std::size_t mine, int peer, bool late, const Deadline& deadline) {
  const EndpointSet::Opened& per = set_->opened()[mine];
  const std::vector<std::byte>& descriptor = per.peers[0][static_cast<std::size_t>(peer)];
  char why[TUTTI_WHY_MAX] = "";
  const tutti_link_result result = per.transport->probe(endpoints(TrafficClass::collective).endpoints[mine].handle(), peer,
                                                        descriptor.data(), descriptor.size(), why, sizeof why);
  if (result == TUTTI_LINK_OK || (result == TUTTI_LINK_NOT_YET && !late)) return result;
  const std::string reason =
      result == TUTTI_LINK_NOT_YET ? "none did within " + duration_text(deadline.limit_ns) : std::string(why);
  log(Level::warn, fmt::format("rank {} does not use {} to rank {}, as no path has proved itself: {}", rank_,
                               per.transport->name, peer, reason));
  note_obstacle(mine, peer, "no path has proved itself: " + reason);
  return TUTTI_LINK_BROKEN;
}

bool Transports::reaches(std::size_t mine, int peer, tutti_reach& there) {
  const EndpointSet::Opened& per = set_->opened()[mine];
  const std::vector<std::byte>& descriptor = per.peers[0][static_cast<std::size_t>(peer)];
  if (descriptor.empty()) return false;
  char why[TUTTI_WHY_MAX] = "";
  if (per.transport->reach(endpoints(TrafficClass::collective).endpoints[mine].handle(), peer, descriptor.data(),
                           descriptor.size(), &there, why, sizeof why) != 0) {
    return true;
  }
  log(Level::debug, fmt::format("rank {} does not reach rank {} by {}: {}", rank_, peer, per.transport->name, why));
  note_obstacle(mine, peer, why);
  return false;
}

/// For the error of a pair that nothing connects, which this rank may be one of.
void Transports::note_obstacle(std::size_t mine, int peer, std::string_view why) {
  std::string& all = obstacles_[static_cast<std::size_t>(peer)];
  const TransportWhy said = read_why(why);
  all +=
      fmt::format("{}{}: {}", all.empty() ? "" : "; ", set_->opened()[mine].transport->name, said.told_of("this process"));
  if (obstacle_remedy_.empty()) obstacle_remedy_ = said.remedy;
}

Status Transports::settle(std::span<const std::vector<std::byte>> rows, View& view) {
  const ReachTable table(rows, set_->common().size());
  for (std::size_t a = 0; a < rows.size(); ++a) {
    for (std::size_t b = a + 1; b < rows.size(); ++b) {
      if (table.best(a, b) < 0) return unconnected(a, b);
    }
  }
  settle_on(
      [&table](std::size_t a, std::size_t b) {
        const int best = table.best(a, b);
        const Reach& reach = table.at(a, static_cast<std::size_t>(best), b);
        return Carrier{best, reach.told, reach.reads_peer};
      },
      view);
  return {};
}

/// carrier_of: by what its first argument reaches the second; not asked of a rank and itself. view: as in settle.
template <typename CarrierOf>
void Transports::settle_on(const CarrierOf& carrier_of, View& view) {
  const std::size_t ranks = members_.size();
  const auto self = static_cast<std::size_t>(rank_);
  std::vector<bool> used(set_->common().size());
  std::array<LinkEstimate, kLinkClasses> dearest{};
  for (std::size_t a = 0; a < ranks; ++a) {
    for (std::size_t b = a + 1; b < ranks; ++b) {
      const Carrier carrier = carrier_of(a, b);
      used[static_cast<std::size_t>(carrier.common)] = true;
      view.through_memory = view.through_memory && carrier.reads_peer;
      LinkEstimate& worst = dearest[static_cast<std::size_t>(view.link_class(static_cast<int>(a), static_cast<int>(b)))];
      worst.alpha = std::max(worst.alpha, carrier.told.alpha);
      worst.beta = std::max(worst.beta, carrier.told.beta);
    }
  }
  carriers_.resize(ranks);
  for (std::size_t peer = 0; peer < ranks; ++peer) {
    if (peer != self) carriers_[peer] = carrier_of(self, peer);
  }
  for (std::size_t c = 0; c < kLinkClasses; ++c) {
    if (dearest[c].beta > 0) view.links[c] = dearest[c];
  }
  names_ = names_of(used);
}

std::vector<std::byte> Transports::describe_carriers() const {
  ByteWriter out;
  for (const Carrier& carrier : carriers_) {
    out.u32(static_cast<std::uint32_t>(carrier.common + 1));
    for (const double number : {carrier.told.alpha, carrier.told.beta}) {
      out.u32(std::bit_cast<std::uint32_t>(static_cast<float>(number)));
    }
    out.u32(carrier.reads_peer ? 1 : 0);
  }
  return out.take();
}

Status Transports::settle_part(std::span<const std::vector<std::byte>> rows, View& view) {
  const std::size_t ranks = members_.size();
  std::vector<std::vector<Carrier>> table;  // by rank of this communicator, and of whole's
  for (const std::vector<std::byte>& row : rows) {
    std::vector<Carrier>& carriers = table.emplace_back();
    for (ByteReader reader(row); reader.left() != 0 && reader.ok();) {
      Carrier& carrier = carriers.emplace_back();
      carrier.common = static_cast<int>(reader.u32()) - 1;
      carrier.told.alpha = bits_to_float(reader.u32());
      carrier.told.beta = bits_to_float(reader.u32());
      carrier.reads_peer = reader.u32() != 0;
    }
  }
  const auto cell = [&](std::size_t a, std::size_t b) {
    const auto column = static_cast<std::size_t>(in_whole_[b]);
    return a < table.size() && column < table[a].size() ? table[a][column] : Carrier{};
  };
  const auto is_sound = [&](std::size_t a, std::size_t b) {
    const int common = cell(a, b).common;
    const bool is_known = common >= 0 && static_cast<std::size_t>(common) < set_->common().size();
    return a == b || (is_known && common == cell(b, a).common);
  };
  for (std::size_t pair = 0; pair < ranks * ranks; ++pair) {
    if (is_sound(pair / ranks, pair % ranks)) continue;
    return Status(TUTTI_INTERNAL_ERROR, fmt::format("rank {} and rank {} do not tell alike by what they reach each other",
                                                    pair / ranks, pair % ranks));
  }
  settle_on(cell, view);
  return {};
}

/// Why two ranks have no transport in common: the same on all ranks, but that those two add why each does not reach.
Status Transports::unconnected(std::size_t a, std::size_t b) const {
  const std::string message = fmt::format("no transport connects rank {} and rank {}: rank {} has {}, rank {} has {}", a, b,
                                          a, set_->offered(a), b, set_->offered(b));
  for (const std::size_t rank : {a, b}) {
    if (set_->refusal(rank).empty()) continue;
    const TransportWhy why = read_why(set_->refusal(rank));
    return Status(TUTTI_SYSTEM_ERROR, fmt::format("{}; rank {} lacks {}", message, rank, why.reason),
                  why.remedy.empty() ? kShortageRemedy : why.remedy);
  }
  const std::size_t self = static_cast<std::size_t>(rank_);
  const std::size_t other = a == self ? b : a;
  if ((a == self || b == self) && !obstacles_[other].empty()) {
    return Status(TUTTI_UNSUPPORTED,
                  fmt::format("{}; rank {} does not reach rank {}: {}", message, self, other, obstacles_[other]),
                  obstacle_remedy_.empty() ? "See tutti-doctor on both machines" : obstacle_remedy_);
  }
  const char* const remedy = set_->offered(a) == set_->offered(b)
                                 ? "TUTTI_LOG=debug, and tutti-doctor on both machines, say why these do not reach"
                                 : "Set TUTTI_TRANSPORTS and TUTTI_PLUGINS to the same on all ranks, or not at all; else "
                                   "tutti-doctor on both machines says why one is missing";
  return Status(TUTTI_UNSUPPORTED, message, remedy);
}

std::string Transports::names_of(const std::vector<bool>& used) const {
  std::string names;
  for (std::size_t t = 0; t < used.size(); ++t) {
    if (used[t]) names += (names.empty() ? "" : "+") + set_->common()[t].name;
  }
  return names.empty() ? "none" : names;
}

std::vector<const char*> Transports::carriers() const {
  std::vector<const char*> names;
  for (const Carrier& carrier : carriers_) {
    names.push_back(carrier.common < 0 ? nullptr : set_->common()[static_cast<std::size_t>(carrier.common)].name.c_str());
  }
  return names;
}

Result<HostLink*> Transports::link(TrafficClass traffic, int peer, std::uint32_t channel, bool sends) {
  auto& links = links_[static_cast<std::size_t>(traffic)];
  const std::uint64_t key = key_of(peer, channel, sends);
  const auto found = links.find(key);
  if (found != links.end()) return found->second.get();
  const Carrier& carrier = carriers_[static_cast<std::size_t>(peer)];
  const auto t = static_cast<std::size_t>(set_->common()[static_cast<std::size_t>(carrier.common)].mine);
  const EndpointSet::Opened& per = set_->opened()[t];
  const int in_set = members_[static_cast<std::size_t>(peer)];
  const auto& descriptor = per.peers[static_cast<std::size_t>(traffic)][static_cast<std::size_t>(in_set)];
  auto link = std::make_unique<HostLink>();
  link->transport = per.transport;
  link->peer = peer;
  link->endpoint = static_cast<std::uint32_t>(t);
  const tutti_link_params params{.size = sizeof(tutti_link_params),
                                 .direction = sends ? TUTTI_LINK_SENDS : TUTTI_LINK_RECEIVES,
                                 .peer = in_set,
                                 .descriptor = descriptor.data(),
                                 .descriptor_length = descriptor.size(),
                                 .channel = context_ + channel,
                                 .slots = link_slots,
                                 .slot_bytes = link_slot_bytes};
  char why[TUTTI_WHY_MAX] = "";
  tutti_endpoint* const endpoint = endpoints(traffic).endpoints[t].handle();
  const tutti_status status = per.transport->open_link(endpoint, &params, &link->link, why, sizeof why);
  if (status != TUTTI_SUCCESS) return not_opened(*link, sends, status, why);
  return links.emplace(key, std::move(link)).first->second.get();
}

Status Transports::not_opened(const HostLink& link, bool sends, tutti_status status, std::string_view why) const {
  const TransportWhy said =
      read_why(!why.empty() ? in_own_ranks(why) : "it gives no reason. See what its maker says of it");
  Error error;
  error.status = said.own ? TUTTI_SYSTEM_ERROR : status;
  error.system_error = error.status == TUTTI_SYSTEM_ERROR ? shortage_now() : 0;
  error.message = fmt::format("rank {} could not open its {} link {} rank {}: {}", rank_, link.transport->name,
                              sends ? "to" : "from", link.peer, said.told_of("it"));
  error.remedy = said.remedy.empty() && error.system_error != 0 ? kShortageRemedy : said.remedy;
  return Status(std::move(error));
}

/// Bytes of an open link's slots, which its receiver has; of one that is not open, none.
static std::uint64_t room_of(const HostLink& link) {
  return link.state.size != 0 && link.state.arrived != nullptr ? link.state.slots * link.state.slot_bytes : 0;
}

tutti_link_result Transports::ready(HostLink& link) {
  if (link.state.size != 0) return TUTTI_LINK_OK;
  tutti_link_state state{};
  state.size = sizeof state;
  const tutti_link_result result = link.transport->link_state(link.link, &state);
  if (result != TUTTI_LINK_OK) return result;
  // What a transport says that it can do and has no operation for, it cannot.
  if (link.transport->revalidate == nullptr) state.capabilities &= ~std::uint32_t{TUTTI_READS_PEER};
  if (link.transport->offer == nullptr)
    state.capabilities &= ~std::uint32_t{TUTTI_CAN_OFFER_ANY | TUTTI_CAN_OFFER_REGISTERED};
  if (link.transport->grant == nullptr)
    state.capabilities &= ~std::uint32_t{TUTTI_CAN_GRANT_ANY | TUTTI_CAN_GRANT_REGISTERED};
  link.state = state;
  room_bytes_.fetch_add(room_of(link), std::memory_order_relaxed);  // relaxed: see room_bytes
  if (log_enabled(Level::debug)) log_open(link);
  return result;
}

void Transports::log_stats(const HostLink& link) const {
  if (link.transport->link_stats == nullptr) return;
  tutti_link_stats stats{};
  stats.size = sizeof stats;
  link.transport->link_stats(link.link, &stats);
  log(Level::debug, fmt::format("{}{} link with rank {}: {}, {}, {} without credit", label_, link.transport->name,
                                link.peer, plural(static_cast<std::int64_t>(stats.messages), "message"),
                                plural(static_cast<std::int64_t>(stats.bytes), "byte"), stats.stalls));
}

void Transports::log_open(const HostLink& link) {
  for (const TrafficClass traffic : {TrafficClass::collective, TrafficClass::point_to_point}) {
    for (const auto& [key, each] : links_[static_cast<std::size_t>(traffic)]) {
      if (each.get() != &link) continue;
      const auto channel = static_cast<std::uint32_t>(key) >> 1;
      log(Level::debug,
          label_ + link_line(link.transport->name, sends_by(key), link.peer, channel, traffic == TrafficClass::collective));
      if (link.transport->explain == nullptr) return;
      char text[TUTTI_WHY_MAX] = "";
      link.transport->explain(endpoints(traffic).endpoints[link.endpoint].handle(),
                              members_[static_cast<std::size_t>(link.peer)], text, sizeof text);
      log(Level::debug, label_ + in_own_ranks(text));
      return;
    }
  }
}

std::string Transports::why_broken(const HostLink& link) const {
  char why[TUTTI_WHY_MAX] = "";
  static_cast<void>(link.transport->failure(link.link, why, sizeof why));
  return in_own_ranks(why);
}

/// Transports know the ranks of the communicator that was not split off, and write them as "rank 3".
std::string Transports::in_own_ranks(std::string_view said) const {
  constexpr std::string_view word = "rank ";
  std::string out;
  for (std::size_t at = 0; !said.empty(); said.remove_prefix(at)) {
    const std::size_t found = said.find(word);
    at = found == said.npos ? said.size() : found + word.size();
    out += said.substr(0, at);
    int in_set = -1;
    const auto [end, error] = std::from_chars(said.data() + at, said.data() + said.size(), in_set);
    const auto own = error == std::errc() ? std::ranges::find(members_, in_set) : members_.end();
    if (own == members_.end()) continue;
    out += std::to_string(own - members_.begin());
    at = static_cast<std::size_t>(end - said.data());
  }
  return out;
}

bool Transports::quiesce(TrafficClass traffic) {
  bool over = true;
  for (auto& [key, link] : links_[static_cast<std::size_t>(traffic)]) {
    if (reaches_memory(*link)) over = link->transport->quiesce(link->link) != TUTTI_QUIESCE_NOT_YET && over;
  }
  return over;
}

/// Looks whether it is `over`, in turns, and makes progress in between, at most for ns. What takes memory here (a peer's
/// messages) and gets none has not told us that it is over.
template <typename Over>
void Transports::await(TrafficClass traffic, std::uint64_t ns, const PollHook& hook, const Over& over) {
  constexpr long first_nap_ns = 20'000;
  constexpr long longest_nap_ns = 500'000;
  EndpointGroup& group = endpoints(traffic);
  const auto look = [&] {
    bool is_over = false;
    const EndpointVisit visit(group);
    const Status looked = catching([&]() -> Status {
      is_over = over();
      if (!is_over) make_progress(group);
      return {};
    });
    return looked.ok() && is_over;
  };
  const Deadline deadline = Deadline::in(ns);
  timespec nap{0, first_nap_ns};
  while (!look() && !deadline.passed()) {
    static_cast<void>(hook.ends_wait());
    ::nanosleep(&nap, nullptr);
    nap.tv_nsec = std::min(2 * nap.tv_nsec, longest_nap_ns);
  }
}

void Transports::await_quiescence(TrafficClass traffic, const PollHook& hook) {
  await(traffic, longest_quiesce_ns, hook, [&] { return quiesce(traffic); });
}

void Transports::flush(TrafficClass traffic) {
  if (!endpoints(traffic).is_shared()) return;
  await(traffic, longest_flush_ns, {}, [&] {
    return std::ranges::none_of(links_[static_cast<std::size_t>(traffic)], [](const auto& entry) {
      const HostLink& link = *entry.second;
      return sends_by(entry.first) && link.state.size != 0 && link.transport->flushed(link.link) == TUTTI_LINK_NOT_YET;
    });
  });
}

void Transports::close_links(TrafficClass traffic) {
  auto& links = links_[static_cast<std::size_t>(traffic)];
  // Each is out of the list before it is closed: nothing that ends this halfway leaves one that is closed twice.
  while (!links.empty()) {
    const EndpointVisit visit(endpoints(traffic));
    const auto taken = links.extract(links.begin());
    const HostLink& link = *taken.mapped();
    bool may_write = true;  // unless it says otherwise
    const Status quieted = catching([&]() -> Status {
      const tutti_quiesced quiesced = link.transport->quiesce(link.link);
      may_write = quiesced == TUTTI_QUARANTINED || quiesced == TUTTI_QUIESCE_NOT_YET;
      if (log_enabled(Level::debug)) log_stats(link);
      return {};
    });
    room_bytes_.fetch_sub(room_of(link), std::memory_order_relaxed);  // relaxed: see room_bytes
    if (may_write) writers_[static_cast<std::size_t>(link.peer)] = true;
    // Without memory its peer hears of the end otherwise.
    static_cast<void>(quieted);
    static_cast<void>(catching([&] { return link.transport->close_link(link.link), Status(); }));
  }
  if (endpoints(traffic).is_shared()) hear(traffic);
}

/// Where nobody waits for an endpoint's peers for long, what they say of links that are gone is heard by those that go.
void Transports::hear(TrafficClass traffic) {
  EndpointGroup& group = endpoints(traffic);
  const EndpointVisit visit(group);
  static_cast<void>(catching([&] { return make_progress(group), Status(); }));
}

}  // namespace tutti
