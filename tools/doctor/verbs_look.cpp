#include "tools/doctor/verbs_look.h"

#include <fmt/format.h>

#include <cstring>
#include <filesystem>
#include <string>

#include "transports/verbs/viable.h"

namespace tutti::doctor {
namespace {

std::string rate_text(std::uint64_t megabits) {
  return megabits == 0 ? "an unknown rate" : fmt::format("{:g} Gbit/s", static_cast<double>(megabits) / 1000);
}

/// The kernel's driver; of a software device the network interface that it is made of.
std::string driver_text(const Sysfs& files, const std::string& device) {
  const std::string folder = "/sys/class/infiniband/" + device;
  const std::string driver = files.resolved(folder + "/device/driver");
  if (!driver.empty()) return "driver " + std::filesystem::path(driver).filename().string();
  const auto parent = files.text(folder + "/parent");
  return parent ? "software on " + *parent : "unknown driver";
}

/// "10.0.0.1 (3, RoCE v2, eth0)", or why it is not used.
std::string gid_text(const verbs::Gid& gid) {
  const std::string fate = gid.type == verbs::GidType::infiniband ? ""
                           : gid.is_usable()                      ? ", " + gid.interface
                                                                  : ", unused: no interface here has it";
  return fmt::format("{} ({}, {}{})", gid.text(), gid.index, verbs::name_of(gid.type), fate);
}

/// Counters of lost packets and of retries that are not 0.
std::string errors_text(const Sysfs& files, const std::string& device, unsigned port) {
  std::string text;
  for (const char* const counter :
       {"local_ack_timeout_err", "out_of_sequence", "packet_seq_err", "rnr_nak_retry_err", "roce_adp_retrans_to"}) {
    const auto count = files.number(fmt::format("/sys/class/infiniband/{}/ports/{}/hw_counters/{}", device, port, counter));
    if (count.value_or(0) != 0) text += fmt::format("; {} {}", counter, *count);
  }
  return text;
}

/// Bonded interfaces go by one port a connection.
std::string bond_text(const Sysfs& files, const verbs::PortFacts& port) {
  for (const verbs::Gid& gid : port.gids) {
    if (!gid.interface.empty() && files.exists("/sys/class/net/" + gid.interface + "/bonding"))
      return fmt::format("; {} is a bond", gid.interface);
  }
  return "";
}

Finding finding_of(const Sysfs& files, const verbs::DeviceFacts& device, const verbs::PortFacts& port) {
  std::string text = fmt::format("{}, {} (physically {}), {}, MTU {}, {}",
                                 port.ethernet ? "RoCE" : fmt::format("InfiniBand, LID {}", port.lid),
                                 verbs::state_text(port.state), verbs::physical_state_text(port.physical_state),
                                 rate_text(port.megabits), port.mtu, driver_text(files, device.name));
  for (const verbs::Gid& gid : port.gids) text += "; GID " + gid_text(gid);
  text += bond_text(files, port) + errors_text(files, device.name, port.number);
  const std::string name = fmt::format("{}:{}", device.name, port.number);
  if (!device.can_connect) return {name, Health::note, text, "iWARP: use tcp on it"};
  if (port.is_usable()) return {name, Health::good, text, ""};
  const Error why = verbs::why_unusable(device, port).error();
  return {name, Health::note, text + "; " + why.message, why.remedy};
}

}  // namespace

VerbsLook look_at_verbs_ports(const Sysfs& files) { return look_at_verbs_ports(files, verbs::load_verbs()); }

VerbsLook look_at_verbs_ports(const Sysfs& files, const verbs::VerbsApi* api) {
  const auto devices = api != nullptr ? verbs::look_at_devices(*api) : std::vector<verbs::DeviceFacts>();
  verbs::Surroundings around = verbs::surroundings();
  around.kernel_devices = files.entries("/sys/class/infiniband");
  VerbsLook look{verbs::viable(api, devices, around), {}};
  for (const verbs::DeviceFacts& device : devices) {
    for (const verbs::PortFacts& port : device.ports) look.ports.push_back(finding_of(files, device, port));
    if (!device.ports.empty()) continue;
    const char* const why = device.open_error != 0 ? std::strerror(device.open_error) : "it tells of no port";
    look.ports.push_back({device.name, Health::note, fmt::format("cannot be asked: {}", why), ""});
  }
  return look;
}

}  // namespace tutti::doctor
