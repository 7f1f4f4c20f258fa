#include "tools/doctor/verdicts.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>

#include "src/base/addresses.h"
#include "src/base/link_shape.h"
#include "src/base/module_folder.h"
#include "tools/doctor/verbs_look.h"
#include "topology/graph.h"
#include "topology/read_sysfs.h"
#include "transports/registry.h"

namespace tutti::doctor {
namespace {

/// What the transport itself says, as a communicator would be told.
Verdict judge_viable(const tutti_transport& transport) {
  std::array<char, TUTTI_WHY_MAX> why{};
  const bool usable = transport.viable(why.data(), why.size()) != 0;
  const TransportWhy said = read_why(why.data());
  const std::string remedy = said.remedy.empty() ? "See what the transport's maker says of it" : said.remedy;
  return {transport.name, usable, said.told_of("this process"), usable ? "" : remedy};
}

/// What the plugin itself says, and which file it is.
Verdict judge_plugin(const Plugin& plugin) {
  if (plugin.transport == nullptr) {
    return {std::filesystem::path(plugin.file).filename().string(), false, "passed over: " + plugin.why,
            fmt::format("Mend {}, or take it out of the folder of TUTTI_PLUGIN_PATH", plugin.file)};
  }
  Verdict verdict = judge_viable(*plugin.transport);
  verdict.why += fmt::format("{}(plugin {})", verdict.why.empty() ? "" : " ", plugin.file);
  return verdict;
}

bool loads(const char* library) {
  void* const handle = ::dlopen(library, RTLD_LAZY | RTLD_LOCAL);
  // Drivers' libraries do not like to be unloaded: this short-lived process keeps them.
  return handle != nullptr;
}

/// Something that a transport needs: nothing where it is there, else why it is not.
using Need = std::optional<std::string> (*)(const Sysfs&);

std::optional<std::string> verbs_missing(const Sysfs& files) {
  const Status usable = look_at_verbs_ports(files).usable;
  if (usable.ok()) return std::nullopt;
  return usable.error().message;
}

std::optional<std::string> two_gpus_missing(const Sysfs& files) {
  const std::size_t gpus = read_sysfs(files).of(NodeKind::gpu).size();
  if (gpus >= 2) return std::nullopt;
  return fmt::format("this machine shows {}, and NVLink joins two", gpus == 0 ? "no GPU" : "one GPU");
}

std::optional<std::string> nvidia_driver_missing(const Sysfs& files) {
  if (files.exists("/dev/nvidiactl") && loads("libcuda.so.1")) return std::nullopt;
  return "there are GPUs, but no NVIDIA driver (/dev/nvidiactl, libcuda.so.1)";
}

/// A transport that is not there yet, so that no remedy helps.
struct Device {
  const char* transport;
  std::array<Need, 2> needs;
  const char* meanwhile;
};
constexpr std::array<Device, 2> kDevices = {{
    {"verbs", {verbs_missing, nullptr}, "Use tcp meanwhile, which reaches the same machines"},
    {"nvlink", {two_gpus_missing, nvidia_driver_missing}, "Use host memory over shm meanwhile"},
}};

Verdict judge_device(const Device& device, const Sysfs& files) {
  std::string why = fmt::format("Tutti has no {} transport yet", device.transport);
  for (const Need& need : device.needs) {
    if (need == nullptr) continue;
    if (const auto missing = need(files)) {
      why += "; " + *missing;
      break;
    }
  }
  return {device.transport, false, why, device.meanwhile};
}

/// Whatever carries messages, ranks meet by TCP: without an interface none of it is of use.
void apply_meeting(Verdict& verdict) {
  const auto addresses = local_addresses("");
  if (!verdict.usable || addresses.ok()) return;
  verdict.usable = false;
  verdict.why = "ranks cannot meet here: " + addresses.status().error().message;
  verdict.remedy = addresses.status().error().remedy;
}

/// TUTTI_TRANSPORTS may leave out what would work.
void apply_choice(const Settings& settings, Verdict& verdict) {
  const auto& chosen = settings.transports;
  if (!verdict.usable || chosen.empty()) return;
  if (std::find(chosen.begin(), chosen.end(), verdict.transport) != chosen.end()) return;
  verdict.usable = false;
  verdict.why = "TUTTI_TRANSPORTS leaves it out";
  verdict.remedy = fmt::format("Add {} to TUTTI_TRANSPORTS, or unset it", verdict.transport);
}

}  // namespace

KnownTransports transports_of_library(const Settings& settings) {
  return known_transports(settings.plugin_path,
                          module_folder(settings.module_dir, reinterpret_cast<const void*>(&tutti_version)));
}

std::vector<Verdict> judge_transports(const Sysfs& files, const Settings& settings) {
  std::vector<Verdict> verdicts;
  for (const tutti_transport* transport : builtin_transports()) verdicts.push_back(judge_viable(*transport));
  for (const Device& device : kDevices) verdicts.push_back(judge_device(device, files));
  for (const Plugin& plugin : transports_of_library(settings).plugins) verdicts.push_back(judge_plugin(plugin));
  for (Verdict& verdict : verdicts) {
    apply_meeting(verdict);
    apply_choice(settings, verdict);
  }
  return verdicts;
}

}  // namespace tutti::doctor
