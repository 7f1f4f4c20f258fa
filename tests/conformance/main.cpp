// tutti-conformance [shm | tcp | PLUGIN.so] [gtest options]: runs the suite over the library's own transports, one of them,
// or an outsider's plugin.
#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>

#include "src/links/transport_loader.h"
#include "tests/conformance/world.h"
#include "transports/registry.h"

namespace tutti::conformance {

INSTANTIATE_TEST_SUITE_P(Transports, Conformance, testing::ValuesIn(transports_under_test()),
                         [](const testing::TestParamInfo<const tutti_transport*>& transport) {
                           return std::string(transport.param->name);
                         });

namespace {

/// The plugin's table.
const tutti_transport* load(const char* path) {
  void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::fprintf(stderr, "tutti-conformance: the plugin cannot be loaded: %s\n", dlerror());  // which names the file
    return nullptr;
  }
  std::string why;
  const tutti_transport* const transport = exported_transport(library, why);
  if (transport == nullptr) std::fprintf(stderr, "tutti-conformance: %s cannot be used: %s\n", path, why.c_str());
  return transport;
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
