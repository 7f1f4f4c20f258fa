#include "tools/doctor/plugins.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "transports/registry.h"

namespace tutti::doctor {
namespace {

Plugin load(const std::filesystem::path& file, const std::vector<std::string>& taken) {
  Plugin plugin{file.string(), nullptr, {}};
  void* const library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    plugin.why = ::dlerror();
    return plugin;
  }
  const auto* transport = static_cast<const tutti_transport*>(::dlsym(library, "tutti_transport_plugin"));
  if (transport == nullptr || transport->abi != TUTTI_TRANSPORT_ABI || transport->size < sizeof(tutti_transport)) {
    plugin.why = "it exports no transport of this ABI";
  } else if (std::find(taken.begin(), taken.end(), transport->name) != taken.end()) {
    plugin.why = fmt::format("there is a transport \"{}\" already", transport->name);
  } else {
    plugin.transport = transport;
  }
  return plugin;
}

void load_folder(const std::string& folder, Plugins& out) {
  std::error_code refused;
  std::vector<std::filesystem::path> files;
  for (std::filesystem::directory_iterator file(folder, refused), none; !refused && file != none; file.increment(refused)) {
    if (file->path().extension() == ".so") files.push_back(file->path());
  }
  if (refused) {
    out.refusal = fmt::format(
        "TUTTI_PLUGIN_PATH names the folder \"{}\", which cannot be read: {}; give folders that hold transport plugins, "
        "separated by colons",
        folder, refused.message());
    return;
  }
  std::sort(files.begin(), files.end());
  for (const auto& file : files) out.found.push_back(load(file, transport_names(out)));
}

}  // namespace

Plugins load_plugins(const std::string& path) {
  Plugins out;
  for (std::size_t at = 0; at < path.size() && out.refusal.empty();) {
    const std::size_t end = std::min(path.find(':', at), path.size());
    if (end != at) load_folder(path.substr(at, end - at), out);
    at = end + 1;
  }
  return out;
}

std::vector<std::string> transport_names(const Plugins& plugins) {
  std::vector<std::string> names;
  for (const tutti_transport* transport : builtin_transports()) names.emplace_back(transport->name);
  for (const Plugin& plugin : plugins.found) {
    if (plugin.transport != nullptr) names.emplace_back(plugin.transport->name);
  }
  return names;
}

}  // namespace tutti::doctor
