// A contender's program: its arguments, where it runs, and its conversation with the conductor.
#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <sstream>
#include <string_view>

#include "perf/peers/contender.h"
#include "perf/peers/session.h"
#include "src/program/launcher_detection.h"

namespace tutti::perf {
namespace {

std::vector<std::string> parts(const std::string& list) {
  std::vector<std::string> all;
  std::istringstream stream(list);
  for (std::string part; std::getline(stream, part, ',');) all.push_back(part);
  return all;
}

int refuse(const std::string& sentence) {
  std::fprintf(stderr, "%s\n", sentence.c_str());
  return 2;
}

bool parse(const std::string& text, int& number) {
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc{} && stop == end;
}

// How a value is taken into its field; false where it is none.
template <std::string ContenderPlace::* field>
bool text(ContenderPlace& place, const std::string& value) {
  place.*field = value;
  return !value.empty();
}

template <int ContenderPlace::* field>
bool number(ContenderPlace& place, const std::string& value) {
  return parse(value, place.*field);
}

template <std::vector<std::string> ContenderPlace::* field>
bool names(ContenderPlace& place, const std::string& value) {
  place.*field = parts(value);
  return !value.empty();
}

bool cpus(ContenderPlace& place, const std::string& value) {
  const std::vector<std::string> all = parts(value);
  place.cpus.resize(all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    if (!parse(all[i], place.cpus[i])) return false;
  }
  return !all.empty();
}

bool option(ContenderPlace& place, const std::string& value) {
  const size_t equals = value.find('=');
  if (equals == std::string::npos) return false;
  place.options.emplace_back(value.substr(0, equals), value.substr(equals + 1));
  return true;
}

struct Argument {
  std::string_view name;
  bool (*take)(ContenderPlace& place, const std::string& value);
};
constexpr Argument kArguments[] = {
    {"--rank", number<&ContenderPlace::rank>},
    {"--ranks", number<&ContenderPlace::ranks>},
    {"--transport", text<&ContenderPlace::transport>},
    {"--folder", text<&ContenderPlace::folder>},
    {"--control", text<&ContenderPlace::control>},
    {"--cpus", cpus},
    {"--networks", names<&ContenderPlace::networks>},
    {"--addresses", names<&ContenderPlace::addresses>},
    {"--set", option},
};

// Returns "" or a sentence. The rank comes from the launcher where --rank is not given.
std::string read(int argc, char** argv, ContenderPlace& place) {
  for (int i = 1; i < argc; i += 2) {
    const std::string name = argv[i];
    const std::string value = i + 1 < argc ? argv[i + 1] : "";
    const auto* found =
        std::find_if(std::begin(kArguments), std::end(kArguments), [&](const Argument& a) { return a.name == name; });
    if (found == std::end(kArguments)) return name + " is no argument of a contender; docs/benchmarking.md lists them";
    if (!found->take(place, value)) return name + " was given '" + value + "', which it does not take";
  }
  if (place.rank < 0) {
    const program::DetectedLauncher launched = program::detect_launcher();
    if (launched.place) place.rank = launched.place->rank;
  }
  if (place.rank >= 0 && place.rank < place.ranks && !place.control.empty() && !place.folder.empty()) return "";
  return "this program is started by perf/compare, with --rank, --ranks, --folder and --control";
}

std::string pin(const ContenderPlace& place) {
  if (place.cpus.empty()) return "";
  const int cpu = place.cpus[static_cast<size_t>(place.rank) % place.cpus.size()];
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  if (sched_setaffinity(0, sizeof set, &set) == 0) return "";
  return "cannot pin to CPU " + std::to_string(cpu) + ": " + std::strerror(errno);
}

std::string enter_network(const ContenderPlace& place) {
  if (place.networks.empty()) return "";
  const std::string& name = place.networks[static_cast<size_t>(place.rank) % place.networks.size()];
  const std::string path = "/var/run/netns/" + name;
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool entered = file >= 0 && setns(file, CLONE_NEWNET) == 0;
  const std::string why = entered ? "" : "cannot enter the network namespace " + name + ": " + std::strerror(errno);
  if (file >= 0) close(file);
  return why;
}

int call_conductor(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return -1;
  std::memcpy(address.sun_path, path.c_str(), path.size());
  const int line = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (line >= 0 && connect(line, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return line;
  if (line >= 0) close(line);
  return -1;
}

bool say(int line, const std::string& text) {
  const std::string whole = text + "\n";
  for (size_t sent = 0; sent < whole.size();) {
    const ssize_t n = send(line, whole.data() + sent, whole.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    sent += static_cast<size_t>(n);
  }
  return true;
}

// Blocks in read(): an idle contender takes no CPU. False when the conductor has gone.
bool hear(int line, std::string& rest, std::string& command) {
  for (;;) {
    const size_t end = rest.find('\n');
    if (end != std::string::npos) {
      command = rest.substr(0, end);
      rest.erase(0, end + 1);
      return true;
    }
    char bytes[4096];
    const ssize_t n = ::read(line, bytes, sizeof bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    rest.append(bytes, static_cast<size_t>(n));
  }
}

int converse(Contender& contender, const ContenderPlace& place, int line) {
  Session session(contender, place);
  program::JsonObject hello;
  const std::string why = session.open();
  if (!why.empty()) return refuse(why);
  hello.add("rank", place.rank).add("pid", static_cast<int64_t>(getpid()));
  if (!say(line, hello.text())) return 1;
  std::string rest;
  std::string text;
  while (hear(line, rest, text)) {
    const Command command = parse_command(text);
    if (command.verb == "quit") return 0;
    if (!say(line, session.obey(command).text())) break;
  }
  // The conductor has gone: nobody is left to whom the library's farewell would matter, and it may wait for ranks that
  // have gone too.
  _exit(1);
}

}  // namespace

int serve(Contender& contender, int argc, char** argv) {
  // The launcher's death is ours: whatever happens to the conductor, no rank is left behind.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  ContenderPlace place;
  std::string why = read(argc, argv, place);
  if (why.empty()) why = pin(place);
  if (why.empty()) why = enter_network(place);
  if (!why.empty()) return refuse(why);
  const int line = call_conductor(place.control);
  if (line < 0) return refuse("cannot reach the conductor at " + place.control + ": " + std::strerror(errno));
  const int status = converse(contender, place, line);
  close(line);
  return status;
}

}  // namespace tutti::perf
