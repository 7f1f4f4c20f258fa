#include "tools/doctor/checks.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <map>

#include "src/base/addresses.h"
#include "src/base/memory_file.h"
#include "src/base/settings.h"
#include "src/base/unique_fd.h"
#include "tools/doctor/cuda_checks.h"
#include "tools/doctor/values.h"
#include "topology/caches.h"
#include "topology/cpus.h"
#include "topology/read_sysfs.h"

namespace tutti::doctor {
namespace {

Finding good(std::string text) { return {{}, Health::good, std::move(text), {}}; }
Finding note(std::string text, std::string remedy) { return {{}, Health::note, std::move(text), std::move(remedy)}; }
Finding bad(std::string text, std::string remedy) { return {{}, Health::bad, std::move(text), std::move(remedy)}; }

std::string joined(const std::vector<std::string>& parts) { return fmt::format("{}", fmt::join(parts, ", ")); }

Finding look_at_cpus(const Sysfs& files) {
  const CpuLimits limits = cpu_limits(files);
  std::string text =
      fmt::format("{} may be used (affinity), {} in effect", cpu_list_text(limits.allowed), limits.effective());
  if (limits.quota_from.empty()) return good(text + ", no quota");
  text += fmt::format(", quota {:.2f} CPUs by {}", limits.quota, limits.quota_from);
  if (limits.quota >= static_cast<double>(limits.allowed.size())) return good(text);
  return note(text, "Ranks beyond the CPUs in effect yield instead of spinning; raise the container's CPU limit for more");
}

Finding look_at_caches(const Sysfs& files) {
  const CpuLimits limits = cpu_limits(files);
  const CacheSizes sizes = read_cache_sizes(files, limits.allowed.empty() ? 0 : limits.allowed.front());
  return good(fmt::format("L1d {} KiB, L2 {} KiB shared by {}, L3 {} KiB shared by {}", sizes.l1d >> 10, sizes.l2 >> 10,
                          sizes.l2_sharers, sizes.l3 >> 10, sizes.l3_sharers));
}

Finding look_at_shared_memory(const Sysfs&) {
  constexpr std::size_t bytes = 1 << 20;
  const auto memory = create_memory("tutti-doctor", bytes);
  const Status made = memory.ok() ? map_memory(memory->get(), 0, bytes, true).status() : memory.status();
  if (made.ok()) return good("memfd works; /dev/shm is not needed");
  return bad(made.error().message, made.error().remedy);
}

Finding look_at_unix_sockets(const Sysfs&) {
  const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // Binding to no more than the family gives an abstract name of the kernel's choice.
  const bool works = socket &&
                     ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(sa_family_t)) == 0 &&
                     ::listen(socket.get(), 1) == 0;
  if (works) return good("abstract Unix sockets work");
  return bad(fmt::format("Unix sockets fail: {}", std::strerror(errno)),
             "Allow AF_UNIX sockets in the sandbox of this process");
}

Finding look_at_interfaces(const Sysfs&) {
  const auto addresses = local_addresses("");
  if (!addresses.ok())
    return bad(addresses.status().error().message, "Bring an interface up, the loopback at least: ip link set lo up");
  std::map<std::string, std::vector<std::string>> hosts;  // by interface, as TUTTI_COMM_ID takes them
  for (const auto& [interface, address] : *addresses) hosts[interface].push_back(address.host_text());
  std::vector<std::string> parts;
  for (const auto& [interface, texts] : hosts) parts.push_back(fmt::format("{} ({})", interface, joined(texts)));
  return good("up are " + joined(parts));
}

Finding look_at_verbs(const Sysfs& files) {
  std::vector<std::string> parts;
  for (const std::string& name : files.entries("/sys/class/infiniband")) {
    const std::string port = "/sys/class/infiniband/" + name + "/ports/1/";
    parts.push_back(fmt::format("{} ({}, {})", name, files.text(port + "link_layer").value_or("link unknown"),
                                files.text(port + "state").value_or("state unknown")));
  }
  return good(parts.empty() ? "none" : joined(parts));
}

Finding look_at_gpus(const Sysfs& files) {
  Graph graph = read_sysfs(files);
  complete_from_sysfs(files, graph);
  std::vector<std::string> parts;
  for (const int gpu : graph.of(NodeKind::gpu)) {
    const Node& node = graph.nodes[static_cast<std::size_t>(gpu)];
    parts.push_back(fmt::format("{} {}", node.pci, node.name.empty() ? "without a driver's name" : node.name));
  }
  if (parts.empty()) return good("none");
  if (files.exists("/dev/nvidiactl") || files.exists("/dev/kfd")) return good(joined(parts));
  return note(joined(parts) + ", but no driver's device in /dev",
              "Load the driver, or pass its devices into the container");
}

std::string limit_text(rlim_t value) { return value == RLIM_INFINITY ? "unlimited" : std::to_string(value); }

Finding look_at_descriptors(const Sysfs&) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const std::string text = fmt::format("{} of at most {}", limit_text(limit.rlim_cur), limit_text(limit.rlim_max));
  constexpr rlim_t few = 1024;
  if (limit.rlim_cur >= few) return good(text);
  return note(text, "ulimit -n 4096: each peer over tcp takes a few descriptors");
}

Finding look_at_locked_memory(const Sysfs& files) {
  rlimit limit{};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  if (limit.rlim_cur == RLIM_INFINITY) return good("unlimited");
  const std::string text = limit_text(limit.rlim_cur) + " bytes";
  if (files.entries("/sys/class/infiniband").empty()) return good(text + " (matters to verbs only)");
  return note(text, "ulimit -l unlimited: verbs registers the memory it sends from");
}

Finding look_at_huge_pages(const Sysfs& files) {
  const auto chosen = [&](const std::string& file) {
    const std::string text = files.text("/sys/kernel/mm/transparent_hugepage/" + file).value_or("");
    const std::size_t open = text.find('[');
    const std::size_t close = text.find(']');
    return open < close && close != std::string::npos ? text.substr(open + 1, close - open - 1) : std::string("unknown");
  };
  return good(fmt::format("private memory {}, shared memory {}", chosen("enabled"), chosen("shmem_enabled")));
}

Finding look_at_recordings(const Sysfs&) {
  const Settings settings = tolerant_settings(nullptr);
  if (!settings.record) return good("off by TUTTI_RECORD");
  std::string folder = settings.record_dir;
  // The folder is made when the first recording is written: until then its nearest existing parent counts.
  while (folder.size() > 1 && ::access(folder.c_str(), F_OK) != 0)
    folder.resize(std::max<std::size_t>(1, folder.rfind('/')));
  if (::access(folder.c_str(), W_OK) == 0) return good(fmt::format("{} can be written", settings.record_dir));
  return note(fmt::format("{} cannot be written", settings.record_dir), "Set TUTTI_RECORD_DIR to a folder that can");
}

Finding look_at_settings(const Sysfs&) {
  for (const SettingRow& row : checked_settings()) {
    if (!row.problem.empty()) return bad(row.problem, "Programs of ours refuse to start where they meet it");
  }
  const std::vector<std::string> unknown = unknown_settings();
  if (unknown.empty()) return good("all good; --settings lists them");
  return note(unknown.front(), "Unset it or correct its name");
}

struct Check {
  const char* name;
  Finding (*look)(const Sysfs&);
};

constexpr std::array<Check, 15> kChecks = {{
    {"CPUs", look_at_cpus},
    {"caches", look_at_caches},
    {"shared memory", look_at_shared_memory},
    {"Unix sockets", look_at_unix_sockets},
    {"interfaces", look_at_interfaces},
    {"verbs devices", look_at_verbs},
    {"GPUs", look_at_gpus},
    {"CUDA driver", look_at_cuda_driver},
    {"CUDA devices", look_at_cuda_devices},
    {"CUDA kernels", look_at_cuda_kernels},
    {"open files", look_at_descriptors},
    {"locked memory", look_at_locked_memory},
    {"huge pages", look_at_huge_pages},
    {"recordings", look_at_recordings},
    {"settings", look_at_settings},
}};

}  // namespace

std::vector<Finding> look_around(const Sysfs& files) {
  std::vector<Finding> findings;
  for (const Check& check : kChecks) {
    findings.push_back(check.look(files));
    findings.back().name = check.name;
  }
  return findings;
}

const char* health_name(Health health) {
  static constexpr std::array<const char*, 3> names = {"good", "note", "bad"};
  return names[static_cast<std::size_t>(health)];
}

}  // namespace tutti::doctor
