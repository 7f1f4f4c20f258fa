#include "tools/plan/networks.h"

#include <fmt/format.h>

#include <filesystem>

#include "topology/generators.h"

namespace tutti::plan_tool {

View NamedNetwork::view(int ranks) const { return generated_view(name, *network, ranks); }

Result<NamedNetwork> open_network(const std::string& text) {
  // A file's graph makes a network here (topology/machine_network.h), with a view of its own.
  std::error_code unreadable;
  if (!names_generator(text) && std::filesystem::exists(text, unreadable)) {
    return Status(TUTTI_INVALID_ARGUMENT,
                  fmt::format("--topology {} is a file, which cannot be simulated on yet; describe a "
                              "network, for example torus:16x16",
                              text));
  }
  auto network = generate_network(text);
  if (!network.ok()) return Status(TUTTI_INVALID_ARGUMENT, "--topology: " + network.status().text());
  return NamedNetwork{text, *network};
}

}  // namespace tutti::plan_tool
