#include "src/links/transport_set.h"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <limits>

#include "src/base/byte_codec.h"
#include "src/base/clock.h"
#include "src/base/exception_boundary.h"
#include "src/base/log.h"
#include "src/base/plural.h"
#include "src/base/socket.h"
#include "src/control/log_lines.h"
#include "src/links/transport_loader.h"
#include "src/tables/units.h"
#include "topology/caches.h"

namespace tutti {
namespace {

/// The message by which transports are compared.
constexpr double compared_bytes = 64 * 1024;

void log_line(int level, const char* text) { log(static_cast<Level>(level), text); }

/// The transports that settings ask for. Plugins that cannot be used are said in the log and passed over. Where a name is
/// not found, it may be theirs, so the error says it too.
Result<TransportList> wanted(const Settings& settings) {
  const KnownTransports known = known_transports(settings.plugin_path);
  std::string passed_over;
  for (const Plugin& plugin : known.plugins) {
    if (plugin.transport != nullptr) continue;
    log(Level::warn, fmt::format("plugin {} is passed over: {}", plugin.file, plugin.why));
    passed_over += fmt::format("; plugin {} was passed over: {}", plugin.file, plugin.why);
  }
  if (!known.refusal.ok()) return known.refusal;
  Result<TransportList> chosen = choose_transports(known.all, settings.transports, settings.transports_place);
  if (chosen.ok() || passed_over.empty()) return chosen;
  Error error = chosen.status().error();
  error.message += passed_over;
  return Status(std::move(error));
}

/// A transport that this rank has to do without.
struct Refused {
  std::string transport;
  Error error;
};
using AllRefused = std::vector<Refused>;

/// Of what a transport said when it refused.
Status refusal_of(tutti_status status, std::string_view why) {
  TransportWhy said = read_why(why);
  return Status(said.own ? TUTTI_SYSTEM_ERROR : status, said.told_of("this process"), std::move(said.remedy));
}

/// The sentences and remedies of all, each remedy once.
Status together(const AllRefused& all) {
  std::string reasons, remedies;
  bool system = false;
  for (const auto& [transport, error] : all) {
    reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", transport, error.message);
    system = system || error.status == TUTTI_SYSTEM_ERROR;
    if (error.remedy.empty() || remedies.find(error.remedy) != std::string::npos) continue;
    remedies += (remedies.empty() ? "" : "; ") + error.remedy;
  }
  return Status(system ? TUTTI_SYSTEM_ERROR : TUTTI_UNSUPPORTED, reasons, remedies);
}

Status none_of(const AllRefused& all) {
  Error error = together(all).error();
  error.message = "no transport can be used here: " + error.message;
  if (error.remedy.empty()) error.remedy = "See tutti-doctor for what would make one usable";
  return Status(std::move(error));
}

/// Others take its place, which costs speed where a limit of this process keeps it away: then the user is warned.
void say_refused(const Refused& one) {
  const Level level = one.error.status == TUTTI_SYSTEM_ERROR ? Level::warn : Level::info;
  log_once(level, fmt::format("{} is not used: {}", one.transport, Status(one.error).text()));
}

/// Whether a peer may reach into this process's memory by the link, or this process into its peer's. Memory that no region
/// holds is moved by the owner's own progress where the link needs that.
bool reaches_memory(const HostLink& link) {
  constexpr std::uint32_t registered = TUTTI_CAN_OFFER_REGISTERED | TUTTI_CAN_GRANT_REGISTERED | TUTTI_CAN_OFFER_DEVICE |
                                       TUTTI_CAN_GRANT_DEVICE | TUTTI_READS_PEER | TUTTI_WRITES_PEER;
  const std::uint32_t can = link.state.capabilities;
  return link.state.size != 0 && ((can & TUTTI_NEEDS_PROGRESS) == 0 || (can & registered) != 0);
}

std::string joined(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : ",") + name;
  return out;
}

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

Transports::Transports(std::span<const unsigned char, 32> key, int rank, int ranks, const std::string& name)
    : rank_(rank), ranks_(ranks), label_(log_label(name, rank, ranks)) {
  writers_.resize(static_cast<std::size_t>(ranks));
  obstacles_.resize(static_cast<std::size_t>(ranks));
  std::copy(key.begin(), key.end(), key_.begin());
}

Transports::~Transports() {
  for (const TrafficClass traffic : {TrafficClass::collective, TrafficClass::point_to_point}) close_links(traffic);
}

Result<std::unique_ptr<Transports>> Transports::open(const Settings& settings, std::span<const unsigned char, 32> key,
                                                     int rank, int ranks, const std::string& name) {
  std::unique_ptr<Transports> self(new Transports(key, rank, ranks, name));
  auto transports = wanted(settings);
  if (!transports.ok()) return transports.status();
  if (ranks == 1) return self;
  self->set_options(settings);
  AllRefused refused;
  for (const tutti_transport* transport : *transports) {
    char why[TUTTI_WHY_MAX] = "";
    const bool viable = transport->viable(why, sizeof why) != 0;
    const Status opened = viable ? self->open_endpoints(*transport, settings)
                                 : refusal_of(shortage_now() != 0 ? TUTTI_SYSTEM_ERROR : TUTTI_UNSUPPORTED, why);
    if (!opened.ok()) refused.push_back({transport->name, opened.error()});
  }
  if (self->transports_.empty()) return none_of(refused);
  for (const Refused& one : refused) say_refused(one);
  std::erase_if(refused, [](const Refused& one) { return one.error.status != TUTTI_SYSTEM_ERROR; });
  if (!refused.empty()) self->refusal_ = together(refused).text();
  return self;
}

void Transports::set_options(const Settings& settings) {
  std::vector<std::pair<const char*, std::string>> all;
  if (!settings.interfaces.empty()) all.emplace_back("interfaces", joined(settings.interfaces));
  if (settings.port_range.high != 0) {
    all.emplace_back("ports", fmt::format("{}-{}", settings.port_range.low, settings.port_range.high));
  }
  if (cache_sizes().l2_share() != 0) all.emplace_back("core_cache_bytes", std::to_string(cache_sizes().l2_share()));
  option_values_.reserve(all.size());  // their addresses stay
  for (auto& [key, value] : all) options_.push_back({key, option_values_.emplace_back(std::move(value)).c_str()});
}

Status Transports::open_endpoints(const tutti_transport& transport, const Settings& settings) {
  PerTransport mine{&transport, {}, {}};
  std::vector<OpenEndpoint> opened;
  for (std::uint32_t traffic = 0; traffic < traffic_classes; ++traffic) {
    tutti_endpoint_config config{};
    config.size = sizeof config;
    config.rank = rank_;
    config.ranks = ranks_;
    config.endpoint_class = traffic;
    config.key = key_.data();
    config.connect_timeout_ns = settings.connect_timeout_ns;
    config.log = log_line;
    config.options = options_.data();
    config.option_count = options_.size();
    tutti_endpoint* handle = nullptr;
    char why[TUTTI_WHY_MAX] = "";
    const tutti_status status = transport.open(&config, &handle, why, sizeof why);
    if (status != TUTTI_SUCCESS) return refusal_of(status, why);
    opened.emplace_back(&transport, handle);
    mine.own[traffic].resize(TUTTI_DESCRIPTOR_MAX);
    mine.own[traffic].resize(transport.describe(handle, mine.own[traffic].data()));
  }
  for (std::size_t traffic = 0; traffic < traffic_classes; ++traffic) {
    endpoints_[traffic].push_back(std::move(opened[traffic]));
  }
  transports_.push_back(std::move(mine));
  return {};
}

std::vector<std::byte> Transports::describe() const {
  ByteWriter out;
  out.u32(static_cast<std::uint32_t>(transports_.size()));
  for (const PerTransport& mine : transports_) {
    out.text(mine.transport->name);
    for (const auto& descriptor : mine.own) out.blob(descriptor);
  }
  out.text(refusal_);
  return out.take();
}

void Transports::read_descriptions(std::span<const std::vector<std::byte>> descriptions) {
  for (PerTransport& mine : transports_) {
    for (auto& peers : mine.peers) peers.assign(static_cast<std::size_t>(ranks_), {});
  }
  for (std::size_t r = 0; r < descriptions.size(); ++r) {
    ByteReader reader(descriptions[r]);
    std::string& offered = offered_.emplace_back();
    for (std::uint32_t n = reader.u32(); n != 0 && reader.ok(); --n) {
      const std::string name = reader.text();
      offered += (offered.empty() ? "" : ", ") + name;
      const int mine = index_of(name);
      const bool fresh = std::ranges::none_of(common_, [&](const Common& one) { return one.name == name; });
      if (fresh) common_.push_back({name, mine});
      for (std::size_t traffic = 0; traffic < traffic_classes; ++traffic) {
        const auto descriptor = reader.blob();
        if (mine < 0) continue;
        transports_[static_cast<std::size_t>(mine)].peers[traffic][r].assign(descriptor.begin(), descriptor.end());
      }
    }
    refusals_.push_back(reader.text());
  }
}

int Transports::index_of(const std::string& name) const {
  for (std::size_t t = 0; t < transports_.size(); ++t) {
    if (name == transports_[t].transport->name) return static_cast<int>(t);
  }
  return -1;
}

Result<std::vector<std::byte>> Transports::reach(std::span<const std::vector<std::byte>> descriptions, const View& view,
                                                 const Tuning& tuning, const WaitLimits& wait_limits) {
  read_descriptions(descriptions);
  Paths paths(transports_.size(), Paths::value_type(static_cast<std::size_t>(ranks_)));
  for (std::size_t mine = 0; mine < paths.size(); ++mine) {
    for (int peer = 0; peer < ranks_; ++peer) {
      tutti_reach there{};
      there.size = sizeof there;
      if (peer != rank_ && reaches(mine, peer, there)) paths[mine][static_cast<std::size_t>(peer)] = there;
    }
  }
  if (Status status = prove(paths, wait_limits); !status.ok()) return status;
  ByteWriter out;
  for (const auto& [name, mine] : common_) {
    for (int peer = 0; peer < ranks_; ++peer) {
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
    for (int peer = 0; transports_[mine].transport->probe != nullptr && peer < ranks_; ++peer) {
      const auto distance = static_cast<unsigned>(std::abs(peer - rank_));
      const bool neighbor = std::has_single_bit(distance) || std::has_single_bit(static_cast<unsigned>(ranks_) - distance);
      if (neighbor && paths[mine][static_cast<std::size_t>(peer)]) pending.emplace_back(mine, peer);
    }
  }
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
    for (OpenEndpoint& endpoint : endpoints_[0]) static_cast<void>(endpoint.transport()->progress(endpoint.handle()));
    if (pending.empty()) break;
    if (Status status = wait_limits.check(); !status.ok()) return status;
    constexpr timespec nap{0, 1'000'000};
    ::nanosleep(&nap, nullptr);
  }
  return {};
}

/// Asks once. late: "not yet" is too late, and says why in the log like every path that fails.
tutti_link_result Transports::probe(std::size_t mine, int peer, bool late, const Deadline& deadline) {
  const PerTransport& per = transports_[mine];
  const std::vector<std::byte>& descriptor = per.peers[0][static_cast<std::size_t>(peer)];
  char why[TUTTI_WHY_MAX] = "";
  const tutti_link_result result =
      per.transport->probe(endpoints_[0][mine].handle(), peer, descriptor.data(), descriptor.size(), why, sizeof why);
  if (result == TUTTI_LINK_OK || (result == TUTTI_LINK_NOT_YET && !late)) return result;
  const std::string reason =
      result == TUTTI_LINK_NOT_YET ? "none did within " + duration_text(deadline.limit_ns) : std::string(why);
  log(Level::warn, fmt::format("rank {} does not use {} to rank {}, as no path has proved itself: {}", rank_,
                               per.transport->name, peer, reason));
  note_obstacle(mine, peer, "no path has proved itself: " + reason);
  return TUTTI_LINK_BROKEN;
}

bool Transports::reaches(std::size_t mine, int peer, tutti_reach& there) {
  const PerTransport& per = transports_[mine];
  const std::vector<std::byte>& descriptor = per.peers[0][static_cast<std::size_t>(peer)];
  if (descriptor.empty()) return false;
  char why[TUTTI_WHY_MAX] = "";
  if (per.transport->reach(endpoints_[0][mine].handle(), peer, descriptor.data(), descriptor.size(), &there, why,
                           sizeof why) != 0) {
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
  all += fmt::format("{}{}: {}", all.empty() ? "" : "; ", transports_[mine].transport->name, said.told_of("this process"));
  if (obstacle_remedy_.empty()) obstacle_remedy_ = said.remedy;
}

Status Transports::settle(std::span<const std::vector<std::byte>> rows, View& view) {
  const ReachTable table(rows, common_.size());
  std::vector<bool> used(common_.size());
  std::array<LinkEstimate, kLinkClasses> dearest{};
  chosen_.assign(static_cast<std::size_t>(ranks_), -1);
  for (std::size_t a = 0; a < rows.size(); ++a) {
    for (std::size_t b = a + 1; b < rows.size(); ++b) {
      const int best = table.best(a, b);
      if (best < 0) return unconnected(a, b);
      const std::size_t t = static_cast<std::size_t>(best);
      used[t] = true;
      const LinkEstimate& told = table.at(a, t, b).told;
      view.through_memory = view.through_memory && table.at(a, t, b).reads_peer;
      LinkEstimate& worst = dearest[static_cast<std::size_t>(view.link_class(static_cast<int>(a), static_cast<int>(b)))];
      worst.alpha = std::max(worst.alpha, told.alpha);
      worst.beta = std::max(worst.beta, told.beta);
      if (static_cast<int>(a) == rank_) chosen_[b] = common_[t].mine;
      if (static_cast<int>(b) == rank_) chosen_[a] = common_[t].mine;
    }
  }
  for (std::size_t c = 0; c < kLinkClasses; ++c) {
    if (dearest[c].beta > 0) view.links[c] = dearest[c];
  }
  names_ = names_of(used);
  return {};
}

/// Why two ranks have no transport in common: the same on all ranks, but that those two add why each does not reach.
Status Transports::unconnected(std::size_t a, std::size_t b) const {
  const std::string message = fmt::format("no transport connects rank {} and rank {}: rank {} has {}, rank {} has {}", a, b,
                                          a, offered_[a], b, offered_[b]);
  for (const std::size_t rank : {a, b}) {
    if (refusals_[rank].empty()) continue;
    const TransportWhy why = read_why(refusals_[rank]);
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
  const char* const remedy = offered_[a] == offered_[b]
                                 ? "TUTTI_LOG=debug, and tutti-doctor on both machines, say why these do not reach"
                                 : "Set TUTTI_TRANSPORTS and TUTTI_PLUGINS to the same on all ranks, or not at all; else "
                                   "tutti-doctor on both machines says why one is missing";
  return Status(TUTTI_UNSUPPORTED, message, remedy);
}

std::string Transports::names_of(const std::vector<bool>& used) const {
  std::string names;
  for (std::size_t t = 0; t < used.size(); ++t) {
    if (used[t]) names += (names.empty() ? "" : "+") + common_[t].name;
  }
  return names.empty() ? "none" : names;
}

std::vector<const char*> Transports::carriers() const {
  std::vector<const char*> names;
  for (const int chosen : chosen_) {
    names.push_back(chosen < 0 ? nullptr : transports_[static_cast<std::size_t>(chosen)].transport->name);
  }
  return names;
}

std::span<OpenEndpoint> Transports::endpoints(TrafficClass traffic) {
  return endpoints_[static_cast<std::size_t>(traffic)];
}

Result<HostLink*> Transports::link(TrafficClass traffic, int peer, std::uint32_t channel, bool sends) {
  auto& links = links_[static_cast<std::size_t>(traffic)];
  const std::uint64_t key = (static_cast<std::uint64_t>(peer) << 32) | (std::uint64_t{channel} << 1) | (sends ? 1 : 0);
  const auto found = links.find(key);
  if (found != links.end()) return found->second.get();
  const std::size_t t = static_cast<std::size_t>(chosen_[static_cast<std::size_t>(peer)]);
  const PerTransport& per = transports_[t];
  const auto& descriptor = per.peers[static_cast<std::size_t>(traffic)][static_cast<std::size_t>(peer)];
  auto link = std::make_unique<HostLink>();
  link->transport = per.transport;
  link->peer = peer;
  link->endpoint = static_cast<std::uint32_t>(t);
  const tutti_link_params params{.size = sizeof(tutti_link_params),
                                 .direction = sends ? TUTTI_LINK_SENDS : TUTTI_LINK_RECEIVES,
                                 .peer = peer,
                                 .descriptor = descriptor.data(),
                                 .descriptor_length = descriptor.size(),
                                 .channel = channel,
                                 .slots = link_slots,
                                 .slot_bytes = link_slot_bytes};
  char why[TUTTI_WHY_MAX] = "";
  tutti_endpoint* const endpoint = endpoints_[static_cast<std::size_t>(traffic)][t].handle();
  const tutti_status status = per.transport->open_link(endpoint, &params, &link->link, why, sizeof why);
  if (status != TUTTI_SUCCESS) return not_opened(*link, sends, status, why);
  return links.emplace(key, std::move(link)).first->second.get();
}

Status Transports::not_opened(const HostLink& link, bool sends, tutti_status status, std::string_view why) const {
  const TransportWhy said = read_why(!why.empty() ? why : "it gives no reason. See what its maker says of it");
  Error error;
  error.status = said.own ? TUTTI_SYSTEM_ERROR : status;
  error.system_error = error.status == TUTTI_SYSTEM_ERROR ? shortage_now() : 0;
  error.message = fmt::format("rank {} could not open its {} link {} rank {}: {}", rank_, link.transport->name,
                              sends ? "to" : "from", link.peer, said.told_of("it"));
  error.remedy = said.remedy.empty() && error.system_error != 0 ? kShortageRemedy : said.remedy;
  return Status(std::move(error));
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
      log(Level::debug, label_ + link_line(link.transport->name, (key & 1) != 0, link.peer, channel,
                                           traffic == TrafficClass::collective));
      if (link.transport->explain == nullptr) return;
      char text[TUTTI_WHY_MAX] = "";
      link.transport->explain(endpoints_[static_cast<std::size_t>(traffic)][link.endpoint].handle(), link.peer, text,
                              sizeof text);
      log(Level::debug, label_ + text);
      return;
    }
  }
}

bool Transports::quiesce(TrafficClass traffic) {
  bool over = true;
  for (auto& [key, link] : links_[static_cast<std::size_t>(traffic)]) {
    if (reaches_memory(*link)) over = link->transport->quiesce(link->link) != TUTTI_QUIESCE_NOT_YET && over;
  }
  return over;
}

void Transports::await_quiescence(TrafficClass traffic, const PollHook& hook) {
  constexpr long first_nap_ns = 20'000;
  constexpr long longest_nap_ns = 500'000;
  const Deadline deadline = Deadline::in(longest_quiesce_ns);
  timespec nap{0, first_nap_ns};
  const auto over = [&] {
    bool quiet = false;
    // What takes memory here (a peer's messages) and gets none has not told us that it is over.
    const Status looked = catching([&]() -> Status {
      quiet = quiesce(traffic);
      if (quiet) return {};
      for (OpenEndpoint& endpoint : endpoints(traffic))
        static_cast<void>(endpoint.transport()->progress(endpoint.handle()));
      return {};
    });
    return looked.ok() && quiet;
  };
  while (!over() && !deadline.passed()) {
    static_cast<void>(hook.ends_wait());
    ::nanosleep(&nap, nullptr);
    nap.tv_nsec = std::min(2 * nap.tv_nsec, longest_nap_ns);
  }
}

void Transports::close_links(TrafficClass traffic) {
  auto& links = links_[static_cast<std::size_t>(traffic)];
  // Each is out of the list before it is closed: nothing that ends this halfway leaves one that is closed twice.
  while (!links.empty()) {
    const auto taken = links.extract(links.begin());
    const HostLink& link = *taken.mapped();
    bool may_write = true;  // unless it says otherwise
    const Status quieted = catching([&]() -> Status {
      const tutti_quiesced quiesced = link.transport->quiesce(link.link);
      may_write = quiesced == TUTTI_QUARANTINED || quiesced == TUTTI_QUIESCE_NOT_YET;
      if (log_enabled(Level::debug)) log_stats(link);
      return {};
    });
    if (may_write) writers_[static_cast<std::size_t>(link.peer)] = true;
    // Without memory its peer hears of the end otherwise.
    static_cast<void>(quieted);
    static_cast<void>(catching([&] { return link.transport->close_link(link.link), Status(); }));
  }
}

}  // namespace tutti
