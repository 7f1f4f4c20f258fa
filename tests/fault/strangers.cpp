#include "tests/fault/strangers.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <sstream>
#include <tuple>
#include <utility>

namespace tutti::fault {

namespace {

constexpr std::size_t kHello = 49;  // bytes of a hello, of which 16 say protocol and purpose: see src/base/handshake.h
constexpr std::size_t kProof = 98;

void add_tcp(const char* file, int family, const std::set<std::string>& inodes, std::vector<Place>& places) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  while (std::getline(in, line)) {
    std::istringstream words(line);
    std::vector<std::string> word;
    for (std::string w; words >> w;) word.push_back(w);
    if (word.size() < 10 || word[3] != "0A" || inodes.count(word[9]) == 0) continue;
    places.push_back({family, std::stoi(word[1].substr(word[1].rfind(':') + 1), nullptr, 16), ""});
  }
}

void add_abstract(const std::set<std::string>& inodes, std::vector<Place>& places) {
  std::ifstream in("/proc/net/unix");
  std::string line;
  std::getline(in, line);
  while (std::getline(in, line)) {
    std::istringstream words(line);
    std::vector<std::string> word;
    for (std::string w; words >> w;) word.push_back(w);
    const bool listens = word.size() >= 8 && word[3] == "00010000" && word[7][0] == '@';
    if (listens && inodes.count(word[6]) != 0) places.push_back({AF_UNIX, 0, word[7].substr(1)});
  }
}

int connect_to(const Place& place) {
  const int fd = ::socket(place.family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(static_cast<std::uint16_t>(place.port));
  v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = v4.sin_port;
  v6.sin6_addr = in6addr_loopback;
  sockaddr_un local{};
  local.sun_family = AF_UNIX;
  std::memcpy(local.sun_path + 1, place.name.data(), std::min(place.name.size(), sizeof local.sun_path - 1));
  int result = 0;
  if (place.family == AF_INET) result = ::connect(fd, reinterpret_cast<const sockaddr*>(&v4), sizeof v4);
  if (place.family == AF_INET6) result = ::connect(fd, reinterpret_cast<const sockaddr*>(&v6), sizeof v6);
  if (place.family == AF_UNIX) {
    const auto length = offsetof(sockaddr_un, sun_path) + 1 + place.name.size();
    result = ::connect(fd, reinterpret_cast<const sockaddr*>(&local), static_cast<socklen_t>(length));
  }
  if (result == 0 || errno == EINPROGRESS) return fd;
  ::close(fd);
  return -1;
}

// All connections of one attacker.
class Crowd {
 public:
  Crowd(Scene& scene, Kind kind) : scene_(scene), kind_(kind), random_(static_cast<unsigned>(::getpid())) {}

  void assault(const Place& place, int each) {
    for (int i = 0; i < each; ++i) {
      const int fd = connect_to(place);
      if (fd < 0) continue;
      strangers_.push_back({fd, kind_ == Kind::kSilent ? 1 : i % 5, false, 0});
    }
    scene_.places.fetch_add(1, std::memory_order_relaxed);  // relaxed, here and below: figures, nothing hangs on them
  }

  // Says what is to be said, waiting at most `wait_ms` for something to answer.
  void step(int wait_ms) {
    std::vector<pollfd> polls;
    std::vector<Stranger*> whose;
    for (Stranger& stranger : strangers_) {
      const bool hears = stranger.connected && stranger.kind == 2 && stranger.said == 0;
      if (stranger.connected && !hears) continue;
      polls.push_back({stranger.fd, static_cast<short>(stranger.connected ? POLLIN : POLLOUT), 0});
      whose.push_back(&stranger);
    }
    ::poll(polls.data(), polls.size(), wait_ms);
    for (std::size_t i = 0; i < polls.size(); ++i) {
      if (polls[i].revents == 0) continue;
      if (!whose[i]->connected) begin(*whose[i]);
      if (whose[i]->kind == 2 && whose[i]->connected) lie(*whose[i]);
    }
    std::erase_if(strangers_, [](const Stranger& stranger) { return stranger.fd < 0; });
    scene_.held.store(static_cast<int>(strangers_.size()), std::memory_order_relaxed);
  }

  bool settled() const {
    return std::all_of(strangers_.begin(), strangers_.end(), [](const Stranger& s) { return s.connected; });
  }

 private:
  struct Stranger {
    int fd;
    int kind;  // 0 random bytes, 1 silence, 2 a wrong key, 3 shut down, 4 reset
    bool connected;
    int said;
  };

  void end(Stranger& stranger) {
    ::close(stranger.fd);
    stranger.fd = -1;
  }

  void begin(Stranger& stranger) {
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(stranger.fd, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return end(stranger);
    stranger.connected = true;
    scene_.connected.fetch_add(1, std::memory_order_relaxed);
    if (stranger.kind == 0) {
      unsigned char noise[200];
      for (unsigned char& byte : noise) byte = static_cast<unsigned char>(random_());
      static_cast<void>(::send(stranger.fd, noise, 1 + random_() % sizeof noise, MSG_NOSIGNAL));
    }
    if (stranger.kind == 3) ::shutdown(stranger.fd, SHUT_WR);
    if (stranger.kind == 4) {
      const linger at_once{1, 0};
      ::setsockopt(stranger.fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
      end(stranger);
    }
  }

  // Speaks the protocol, for the same purpose, without the key: takes the other's hello for the first bytes of its own.
  void lie(Stranger& stranger) {
    unsigned char said[kHello + kProof];
    const ssize_t n = ::recv(stranger.fd, said, kHello, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN) return;
    if (n < static_cast<ssize_t>(kHello)) return end(stranger);
    said[16] = 'i';
    for (std::size_t i = 17; i < sizeof said; ++i) said[i] = static_cast<unsigned char>(random_());
    said[kHello] = 'P';
    said[kHello + 1] = 8;
    stranger.said = 1;
    if (::send(stranger.fd, said, sizeof said, MSG_NOSIGNAL) < 0) return end(stranger);
    scene_.wrong_keys.fetch_add(1, std::memory_order_relaxed);
  }

  Scene& scene_;
  Kind kind_;
  std::minstd_rand random_;
  std::vector<Stranger> strangers_;
};

}  // namespace

bool Place::operator<(const Place& other) const {
  return std::tie(family, port, name) < std::tie(other.family, other.port, other.name);
}

std::set<std::string> socket_inodes(pid_t pid) {
  std::set<std::string> inodes;
  std::error_code error;
  const std::filesystem::path folder = "/proc/" + std::to_string(pid) + "/fd";
  for (std::filesystem::directory_iterator i(folder, error), end; !error && i != end; i.increment(error)) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(i->path(), gone).string();
    if (!gone && target.rfind("socket:[", 0) == 0) inodes.insert(target.substr(8, target.size() - 9));
  }
  return inodes;
}

std::vector<Place> listening(pid_t pid) {
  const auto inodes = socket_inodes(pid);
  std::vector<Place> places;
  if (inodes.empty()) return places;
  add_tcp("/proc/net/tcp", AF_INET, inodes, places);
  add_tcp("/proc/net/tcp6", AF_INET6, inodes, places);
  add_abstract(inodes, places);
  return places;
}

std::set<std::string> still_open(const std::set<std::string>& inodes) {
  std::set<std::string> open;
  const std::pair<const char*, std::size_t> tables[] = {{"/proc/net/tcp", 9}, {"/proc/net/tcp6", 9}, {"/proc/net/unix", 6}};
  for (const auto& [table, column] : tables) {
    std::ifstream in(table);
    for (std::string line; std::getline(in, line);) {
      std::istringstream words(line);
      std::string word;
      for (std::size_t i = 0; i <= column; ++i) words >> word;
      if (inodes.count(word) != 0) open.insert(word);
    }
  }
  return open;
}

void attack(Scene& scene, int each, Kind kind) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  Crowd crowd(scene, kind);
  std::set<Place> known;
  while (!scene.stop.load(std::memory_order_acquire)) {  // acquire: nothing of the scene is looked at after it
    const int victims = scene.victims.load(std::memory_order_acquire);  // acquire: pids up to there were written before
    for (int i = 0; i < victims; ++i) {
      for (const Place& place : listening(scene.pids[i])) {
        if (known.insert(place).second) crowd.assault(place, each);
      }
    }
    crowd.step(5);
    if (crowd.settled()) scene.rounds.fetch_add(1, std::memory_order_release);  // release: the figures are what they say
  }
  ::_exit(0);
}

}  // namespace tutti::fault
