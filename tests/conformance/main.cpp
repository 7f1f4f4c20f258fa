// tutti-conformance [shm | tcp | PLUGIN.so] [gtest options]: runs the suite over the library's own transports, one of them,
// or an outsider's plugin.
#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>

#include "tests/conformance/world.h"
#include "transports/registry.h"

namespace tutti::conformance {

INSTANTIATE_TEST_SUITE_P(Transports, Conformance, testing::ValuesIn(transports_under_test()),
                         [](const testing::TestParamInfo<const tutti_transport*>& transport) {
                           return std::string(transport.param->name);
                         });

namespace {

/// The plugin's table, widened to today's: what lies beyond the plugin's size is NULL.
const tutti_transport* load(const char* path) {
  void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::fprintf(stderr, "tutti-conformance: cannot load %s: %s\n", path, dlerror());
    return nullptr;
  }
  const void* const symbol = dlsym(library, "tutti_transport_plugin");
  if (symbol == nullptr) {
    std::fprintf(stderr, "tutti-conformance: %s does not export tutti_transport_plugin\n", path);
    return nullptr;
  }
  std::size_t size = 0;
  std::memcpy(&size, symbol, sizeof size);
  static tutti_transport transport{};
  std::memcpy(&transport, symbol, std::min(size, sizeof transport));
  if (transport.abi != TUTTI_TRANSPORT_ABI) {
    std::fprintf(stderr, "tutti-conformance: %s speaks version %u of the interface, not %d\n", path, transport.abi,
                 TUTTI_TRANSPORT_ABI);
    return nullptr;
  }
  return &transport;
}

bool choose(const char* what) {
  if (std::strstr(what, ".so") != nullptr) {
    const tutti_transport* const plugin = load(what);
    if (plugin != nullptr) transports_under_test() = {plugin};
    return plugin != nullptr;
  }
  for (const tutti_transport* t : builtin_transports()) {
    if (std::string_view(t->name) == what) transports_under_test() = {t};
  }
  if (transports_under_test().size() == 1) return true;
  std::fprintf(stderr, "tutti-conformance: there is no built-in transport %s; name one, or a plugin's file (.so)\n", what);
  return false;
}

}  // namespace
}  // namespace tutti::conformance

int main(int argc, char** argv) {
  using namespace tutti::conformance;
  const auto builtin = tutti::builtin_transports();
  transports_under_test().assign(builtin.begin(), builtin.end());
  if (argc > 1 && std::string_view(argv[1]).starts_with("--h")) {
    std::printf(
        "Usage: tutti-conformance [TRANSPORT|PLUGIN.so] [OPTIONS]\n"
        "Whether a transport keeps include/tutti/transport.h: a built-in one, a plugin, or all that are built in.\n"
        "The options are GoogleTest's:\n\n");
  }
  const bool chosen = argc > 1 && argv[1][0] != '-';
  if (chosen && !choose(argv[1])) return 2;
  testing::InitGoogleTest(&argc, argv);  // takes away what it knows
  if (const int known = chosen ? 2 : 1; argc > known) {
    std::fprintf(stderr,
                 "tutti-conformance: %s is not understood; it takes one transport or plugin, and GoogleTest's options\n",
                 argv[known]);
    return 2;
  }
  return RUN_ALL_TESTS();
}
