// A process full of strangers: it connects to every socket at which some processes listen, and knows no key.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace tutti::fault {

/// Where a process listens: a TCP port of this machine, or an abstract Unix name (without its leading zero byte).
struct Place {
  int family = 0;  ///< AF_INET, AF_INET6 or AF_UNIX
  int port = 0;
  std::string name;
  bool operator<(const Place& other) const;
};

/// The sockets at which process `pid` listens now, as /proc tells. Empty where it has ended.
std::vector<Place> listening(pid_t pid);
/// Inodes of all sockets of process `pid`. Empty where it has ended.
std::set<std::string> socket_inodes(pid_t pid);
/// Those of `inodes` that are sockets of this machine still, TCP or Unix, whoever has them.
std::set<std::string> still_open(const std::set<std::string>& inodes);

enum class Kind {
  kMix,     ///< a quarter each: random bytes, silence, a wrong key, half-open (half of these reset, half shut down)
  kSilent,  ///< all connect and say nothing
};

constexpr int kMostVictims = 64;

/// What the attacker and the test tell each other; lives in memory that both share.
struct Scene {
  std::atomic<int> victims{0};     ///< how many of `pids` are valid
  pid_t pids[kMostVictims] = {};   ///< whose sockets are attacked
  std::atomic<bool> stop{false};   ///< the test: enough
  std::atomic<int> rounds{0};      ///< attacker: how often it has looked for places and attacked the new ones
  std::atomic<int> places{0};      ///< attacker: sockets attacked
  std::atomic<int> connected{0};   ///< attacker: connections that stood
  std::atomic<int> held{0};        ///< attacker: connections that it holds open now, its own end at least
  std::atomic<int> wrong_keys{0};  ///< attacker: proofs with a wrong key that were sent
};

/// Attacks with `each` connections per place until scene.stop: places of scene.pids that are new are found and attacked
/// every few milliseconds. Runs in a process of its own; needs `each` descriptors per place.
[[noreturn]] void attack(Scene& scene, int each, Kind kind);

}  // namespace tutti::fault
