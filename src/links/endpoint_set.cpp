#include "src/links/endpoint_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "src/base/byte_codec.h"
#include "src/base/log.h"
#include "src/base/module_folder.h"
#include "src/base/socket.h"
#include "src/base/transport_helpers.h"
#include "src/links/transport_loader.h"
#include "topology/caches.h"

namespace tutti {
namespace {

void log_line(int level, const char* text) { log(static_cast<Level>(level), text); }

/// The transports that settings ask for. Plugins that cannot be used are said in the log and passed over. Where a name is
/// not found, it may be theirs, so the error says it too.
Result<TransportList> wanted(const Settings& settings) {
  const KnownTransports known = known_transports(settings.plugin_path, module_folder(settings.module_dir));
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

std::string joined(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : ",") + name;
  return out;
}

}  // namespace

EndpointSet::Wishes EndpointSet::wishes_of(const Settings& settings) {
  Wishes wishes{settings.transports,     settings.plugin_path,     settings.module_dir,    settings.interfaces,
                settings.port_range.low, settings.port_range.high, settings.traffic_class, settings.connect_timeout_ns};
  std::ranges::sort(wishes.transports);  // in any order
  return wishes;
}

bool EndpointSet::is_opened_by(const Settings& settings) const { return wishes_of(settings) == wishes_; }

EndpointSet::EndpointSet(const Settings& settings, std::span<const unsigned char, 32> key, int rank, int ranks)
    : wishes_(wishes_of(settings)), rank_(rank), ranks_(ranks) {
  std::copy(key.begin(), key.end(), key_.begin());
  set_options();
}

Result<std::unique_ptr<EndpointSet>> EndpointSet::open(const Settings& settings, std::span<const unsigned char, 32> key,
                                                       int rank, int ranks) {
  auto transports = wanted(settings);
  if (!transports.ok()) return transports.status();
  std::unique_ptr<EndpointSet> self(new EndpointSet(settings, key, rank, ranks));
  if (ranks == 1) return self;
  AllRefused refused;
  for (const tutti_transport* transport : *transports) {
    char why[TUTTI_WHY_MAX] = "";
    const bool viable = transport->viable(why, sizeof why) != 0;
    const Status opened = viable ? self->open_endpoints(*transport)
                                 : refusal_of(shortage_now() != 0 ? TUTTI_SYSTEM_ERROR : TUTTI_UNSUPPORTED, why);
    if (!opened.ok()) refused.push_back({transport->name, opened.error()});
  }
  if (self->opened_.empty()) return none_of(refused);
  for (const Refused& one : refused) say_refused(one);
  std::erase_if(refused, [](const Refused& one) { return one.error.status != TUTTI_SYSTEM_ERROR; });
  if (!refused.empty()) self->refusal_ = together(refused).text();
  return self;
}

void EndpointSet::set_options() {
  std::vector<std::pair<const char*, std::string>> all;
  if (!wishes_.interfaces.empty()) all.emplace_back("interfaces", joined(wishes_.interfaces));
  if (wishes_.high_port != 0) all.emplace_back("ports", fmt::format("{}-{}", wishes_.low_port, wishes_.high_port));
  if (wishes_.traffic_class != 0) all.emplace_back("dscp", std::to_string(wishes_.traffic_class));
  if (cache_sizes().l2_share() != 0) all.emplace_back("core_cache_bytes", std::to_string(cache_sizes().l2_share()));
  option_values_.reserve(all.size());  // their addresses stay
  for (auto& [key, value] : all) options_.push_back({key, option_values_.emplace_back(std::move(value)).c_str()});
}

Status EndpointSet::open_endpoints(const tutti_transport& transport) {
  Opened mine{&transport, {}, {}};
  std::vector<OpenEndpoint> opened;
  for (std::uint32_t traffic = 0; traffic < traffic_classes; ++traffic) {
    tutti_endpoint_config config{};
    config.size = sizeof config;
    config.rank = rank_;
    config.ranks = ranks_;
    config.endpoint_class = traffic;
    config.key = key_.data();
    config.connect_timeout_ns = wishes_.connect_timeout_ns;
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
    groups_[traffic].endpoints.push_back(std::move(opened[traffic]));
  }
  opened_.push_back(std::move(mine));
  return {};
}

std::vector<std::byte> EndpointSet::describe() const {
  ByteWriter out;
  out.u32(static_cast<std::uint32_t>(opened_.size()));
  for (const Opened& mine : opened_) {
    out.text(mine.transport->name);
    for (const auto& descriptor : mine.own) out.blob(descriptor);
  }
  out.text(refusal_);
  return out.take();
}

void EndpointSet::read_descriptions(std::span<const std::vector<std::byte>> descriptions) {
  for (Opened& mine : opened_) {
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
        opened_[static_cast<std::size_t>(mine)].peers[traffic][r].assign(descriptor.begin(), descriptor.end());
      }
    }
    refusals_.push_back(reader.text());
  }
}

int EndpointSet::index_of(const std::string& name) const {
  for (std::size_t t = 0; t < opened_.size(); ++t) {
    if (name == opened_[t].transport->name) return static_cast<int>(t);
  }
  return -1;
}

}  // namespace tutti
