#include "src/links/transport_loader.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <initializer_list>
#include <string_view>
#include <system_error>
#include <utility>

#include "transports/registry.h"

namespace tutti {
namespace {

TransportList::const_iterator named(const TransportList& transports, std::string_view name) {
  return std::find_if(transports.begin(), transports.end(), [&](const tutti_transport* t) { return name == t->name; });
}

std::string list_names(const TransportList& transports) {
  std::string names;
  for (const tutti_transport* t : transports) names += (names.empty() ? "" : ", ") + std::string(t->name);
  return names;
}

/// Why a shared object without the symbol of this ABI is no transport.
std::string missing_symbol(void* library) {
  // The symbol of ABI 2 had no number.
  const bool old = ::dlsym(library, "tutti_transport_plugin") != nullptr;
  if (!old) return fmt::format("it exports no {}, so it is no transport", TUTTI_TRANSPORT_SYMBOL);
  return fmt::format(
      "it is built for ABI 2 of tutti/transport.h, and this library has ABI {}; build it with this library's "
      "header",
      TUTTI_TRANSPORT_ABI);
}

/// The plugin in a shared object, which adds to those that are known.
Plugin load(const std::filesystem::path& file, const TransportList& known) {
  Plugin plugin{file.string(), nullptr, {}};
  void* const library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    plugin.why = ::dlerror();
    return plugin;
  }
  const tutti_transport* const exported = exported_transport(library, plugin.why);
  if (exported == nullptr) return plugin;
  if (named(known, exported->name) != known.end()) {
    plugin.why = fmt::format("there is a transport \"{}\" already", exported->name);
  } else {
    plugin.transport = exported;
  }
  return plugin;
}

/// Loads the shared objects of a folder whose names begin so. What kept it from being read, if anything.
std::error_code load_folder(const std::string& folder, std::string_view prefix, KnownTransports& known) {
  std::error_code refused;
  std::vector<std::filesystem::path> files;
  for (std::filesystem::directory_iterator file(folder, refused), none; !refused && file != none; file.increment(refused)) {
    const std::filesystem::path& path = file->path();
    if (path.extension() == ".so" && path.filename().string().starts_with(prefix)) files.push_back(path);
  }
  if (refused) return refused;
  std::sort(files.begin(), files.end());  // a folder's own order differs between machines
  for (const auto& file : files) {
    known.plugins.push_back(load(file, known.all));
    if (known.plugins.back().transport != nullptr) known.all.push_back(known.plugins.back().transport);
  }
  return {};
}

Status load_plugins(const std::string& folder, KnownTransports& known) {
  const std::error_code refused = load_folder(folder, "", known);
  if (!refused) return {};
  return Status(
      TUTTI_INVALID_ARGUMENT,
      fmt::format("TUTTI_PLUGIN_PATH names the folder \"{}\", which cannot be read: {}", folder, refused.message()),
      "Give folders that hold transport plugins, separated by colons.");
}

}  // namespace

const tutti_transport* exported_transport(void* library, std::string& why) {
  const auto* const exported = static_cast<const tutti_transport*>(::dlsym(library, TUTTI_TRANSPORT_SYMBOL));
  why = exported != nullptr ? table_objection(*exported) : missing_symbol(library);
  return why.empty() ? exported : nullptr;
}

std::string table_objection(const tutti_transport& given) {
  if (given.abi != TUTTI_TRANSPORT_ABI || given.size < sizeof(tutti_transport)) {
    return fmt::format(
        "its table is of ABI {} of tutti/transport.h with {} bytes, and this library has ABI {} with {}; build it with "
        "this "
        "library's header",
        given.abi, given.size, TUTTI_TRANSPORT_ABI, sizeof(tutti_transport));
  }
  const std::initializer_list<std::pair<const char*, bool>> mandatory = {
      {"name", given.name != nullptr},
      {"viable", given.viable != nullptr},
      {"open", given.open != nullptr},
      {"close", given.close != nullptr},
      {"properties", given.properties != nullptr},
      {"describe", given.describe != nullptr},
      {"reach", given.reach != nullptr},
      {"progress", given.progress != nullptr},
      {"event_fd", given.event_fd != nullptr},
      {"arm", given.arm != nullptr},
      {"open_link", given.open_link != nullptr},
      {"link_state", given.link_state != nullptr},
      {"failure", given.failure != nullptr},
      {"quiesce", given.quiesce != nullptr},
      {"close_link", given.close_link != nullptr},
      {"reserve", given.reserve != nullptr},
      {"commit", given.commit != nullptr},
      {"send", given.send != nullptr},
      {"flushed", given.flushed != nullptr},
      {"view", given.view != nullptr},
      {"release", given.release != nullptr},
      {"one of register_memory and unregister_memory",
       (given.register_memory == nullptr) == (given.unregister_memory == nullptr)},
  };
  for (const auto& [what, there] : mandatory) {
    if (!there) return fmt::format("its table lacks {}; see tutti/transport.h for what may be NULL", what);
  }
  return {};
}

TransportWhy read_why(std::string_view why) {
  constexpr std::string_view own = "this process ";
  TransportWhy parts;
  parts.own = why.starts_with(own);
  if (parts.own) why.remove_prefix(own.size());
  std::size_t stop = why.find(". ");
  while (stop != std::string_view::npos &&
         (stop + 2 == why.size() || std::isupper(static_cast<unsigned char>(why[stop + 2])) == 0)) {
    stop = why.find(". ", stop + 1);
  }
  parts.reason = why.substr(0, stop);
  if (stop != std::string_view::npos) parts.remedy = why.substr(stop + 2);
  return parts;
}

KnownTransports known_transports(const std::string& plugin_path, const std::string& modules) {
  KnownTransports known;
  known.all = builtin_transports();
  load_folder(modules, "tutti_", known);  // libtutti_kernels.so is another kind of module
  for (std::size_t at = 0; at < plugin_path.size() && known.refusal.ok();) {
    const std::size_t end = std::min(plugin_path.find(':', at), plugin_path.size());
    if (end != at) known.refusal = load_plugins(plugin_path.substr(at, end - at), known);
    at = end + 1;
  }
  return known;
}

Result<TransportList> choose_transports(const TransportList& all, const std::vector<std::string>& names,
                                        const std::string& place) {
  if (names.empty()) return all;
  TransportList out;
  for (const std::string& name : names) {
    const auto found = named(all, name);
    if (found == all.end()) {
      return Status(TUTTI_INVALID_ARGUMENT, fmt::format("{} names a transport \"{}\", which there is not", place, name),
                    fmt::format("Choose from {}.", list_names(all)));
    }
    // Named twice, it is meant once: two endpoints of one name would not know each other's peers.
    if (named(out, name) == out.end()) out.push_back(*found);
  }
  return out;
}

}  // namespace tutti
