// The machine's own limits, measured as the libraries are, in the same run: `copy` and `copy_streaming`, what all ranks
// take to copy `count` elements each at the same time (M); `hop`, one message of a cache line from core to core and back,
// so twice L; `stream`, `count` elements to the next rank and as many from the previous one, both ways at once, over TCP.
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <thread>

#include "perf/measure.h"
#include "perf/peers/contender.h"
#include "perf/peers/streaming.h"

namespace tutti::perf {
namespace {

constexpr uint64_t kPatience = 20'000'000'000;  // ns for connecting

enum Limit { kCopy, kCopyStreaming, kHop, kStream };

// In the order of Limit.
const BenchedCollective kLimits[] = {
    {{"copy", nullptr, nullptr, Role::all, Role::all, BlockSource::self}, false, false, nullptr},
    {{"copy_streaming", nullptr, nullptr, Role::all, Role::all, BlockSource::self}, false, false, nullptr},
    {{"hop"}, false, false, nullptr},
    {{"stream", nullptr, nullptr, Role::all, Role::all, BlockSource::previous}, false, false, nullptr},
};

// One way each, on lines of their own.
struct Lines {
  alignas(128) std::atomic<uint64_t> there;
  alignas(128) std::atomic<uint64_t> back;
};

class Limits : public Contender {
 public:
  ~Limits() override {
    if (lines_ != nullptr) munmap(lines_, sizeof(Lines));
    for (const int socket : {next_, previous_}) {
      if (socket >= 0) close(socket);
    }
  }

  std::string start(const ContenderPlace& place) override {
    place_ = place;
    const int file = open((place.folder + "/lines").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || ftruncate(file, sizeof(Lines)) != 0) return "cannot make the file of the hops";
    void* mapped = mmap(nullptr, sizeof(Lines), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (mapped == MAP_FAILED) return "cannot map the file of the hops";
    lines_ = static_cast<Lines*>(mapped);
    return place.transport == "tcp" && place.ranks > 1 ? connect_ring() : "";
  }

  std::string version() override { return ""; }

  const BenchedCollective* find(const std::string& name) override {
    const auto* found =
        std::find_if(std::begin(kLimits), std::end(kLimits), [&](const BenchedCollective& c) { return name == c.name; });
    return found != std::end(kLimits) ? found : nullptr;
  }

  std::string lacks(const CheckedOperation& operation) override {
    limit_ = static_cast<Limit>(operation.collective - kLimits);
    if (limit_ == kStream && next_ < 0) return "a stream needs --transport tcp and two ranks";
    return limit_ == kHop && place_.ranks < 2 ? "a hop needs two ranks" : "";
  }

  bool run(const CheckedOperation& operation, const Places& places) override {
    switch (limit_) {
      case kCopy:
        std::memcpy(places.recv, places.send, operation.send_bytes());
        return true;
      case kCopyStreaming:
        copy_streaming(places.recv, places.send, operation.send_bytes());
        return true;
      case kHop:
        return place_.rank > 1 || hop();
      case kStream:
        return stream(places, operation.send_bytes());
    }
    return false;
  }

  std::string complaint() override { return complaint_; }

 private:
  // There and back. Relaxed would do for the counters alone; acquire and release are what a message takes.
  bool hop() {
    std::atomic<uint64_t>& mine = place_.rank == 0 ? lines_->there : lines_->back;
    const std::atomic<uint64_t>& theirs = place_.rank == 0 ? lines_->back : lines_->there;
    ++hops_;
    if (place_.rank == 0) mine.store(hops_, std::memory_order_release);
    // Acquire: pairs with the other's release. The deadline is the conductor's, which ends this process.
    for (uint64_t turn = 1; theirs.load(std::memory_order_acquire) < hops_; ++turn) {
      if (turn % 65536 == 0) std::this_thread::yield();
    }
    if (place_.rank != 0) mine.store(hops_, std::memory_order_release);
    return true;
  }

  std::string connect_ring();
  bool dial(int rank, const std::string& port_file);
  enum class Moved { none, some, gone };
  struct Progress {
    uint64_t sent = 0;
    uint64_t received = 0;
  };
  Moved move_some(const Places& places, uint64_t bytes, Progress& progress);
  bool stream(const Places& places, uint64_t bytes);

  ContenderPlace place_;
  Limit limit_ = kCopy;
  Lines* lines_ = nullptr;
  uint64_t hops_ = 0;
  int next_ = -1;      // we send here
  int previous_ = -1;  // we receive here
  std::string complaint_;
};

bool resolve(const std::string& host, const std::string& port, sockaddr_storage& address, socklen_t& length) {
  addrinfo hints = {};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0) return false;
  std::memcpy(&address, found->ai_addr, found->ai_addrlen);
  length = found->ai_addrlen;
  freeaddrinfo(found);
  return true;
}

bool set_up(int socket) {
  const int on = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return fcntl(socket, F_SETFL, fcntl(socket, F_GETFL) | O_NONBLOCK) == 0;
}

bool Limits::dial(int rank, const std::string& port_file) {
  const uint64_t start = now_ns();
  while (now_ns() - start < kPatience) {
    std::string port;
    std::ifstream(port_file) >> port;
    sockaddr_storage address = {};
    socklen_t length = 0;
    if (!port.empty() && resolve(place_.address_of(rank), port, address, length)) {
      next_ = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
      if (next_ >= 0 && connect(next_, reinterpret_cast<sockaddr*>(&address), length) == 0) return set_up(next_);
      if (next_ >= 0) close(next_);
      next_ = -1;
    }
    usleep(2000);
  }
  return false;
}

std::string Limits::connect_ring() {
  sockaddr_storage address = {};
  socklen_t length = 0;
  if (!resolve(place_.address_of(place_.rank), "0", address, length)) return "no address " + place_.address_of(place_.rank);
  const int listener = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listener < 0 || bind(listener, reinterpret_cast<sockaddr*>(&address), length) != 0 || listen(listener, 1) != 0) {
    return std::string("cannot listen: ") + std::strerror(errno);
  }
  sockaddr_storage bound = {};
  socklen_t size = sizeof bound;
  getsockname(listener, reinterpret_cast<sockaddr*>(&bound), &size);
  char port[16] = "";
  getnameinfo(reinterpret_cast<sockaddr*>(&bound), size, nullptr, 0, port, sizeof port, NI_NUMERICSERV);
  const std::string name = place_.folder + "/port.";
  std::ofstream(name + std::to_string(place_.rank) + ".new") << port << "\n";
  std::rename((name + std::to_string(place_.rank) + ".new").c_str(), (name + std::to_string(place_.rank)).c_str());
  const int next = (place_.rank + 1) % place_.ranks;
  const bool dialled = dial(next, name + std::to_string(next));
  pollfd waiting = {listener, POLLIN, 0};
  const bool called = dialled && poll(&waiting, 1, static_cast<int>(kPatience / 1'000'000)) == 1;
  if (called) previous_ = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  close(listener);
  if (previous_ < 0 || !set_up(previous_)) return "the ring of plain sockets could not be made";
  return "";
}

// One look in each direction.
Limits::Moved Limits::move_some(const Places& places, uint64_t bytes, Progress& progress) {
  bool moved = false;
  if (progress.sent < bytes) {
    const ssize_t n = send(next_, places.send + progress.sent, bytes - progress.sent, MSG_NOSIGNAL);
    if (n > 0) progress.sent += static_cast<uint64_t>(n);
    moved = n > 0;
  }
  if (progress.received < bytes) {
    const ssize_t n = recv(previous_, places.recv + progress.received, bytes - progress.received, 0);
    if (n == 0) return Moved::gone;
    if (n > 0) progress.received += static_cast<uint64_t>(n);
    moved = moved || n > 0;
  }
  return moved ? Moved::some : Moved::none;
}

// Looks again for a while before it sleeps, as the libraries do.
bool Limits::stream(const Places& places, uint64_t bytes) {
  constexpr int looks = 200;
  int idle = 0;
  Progress progress;
  while (progress.sent < bytes || progress.received < bytes) {
    const Moved moved = move_some(places, bytes, progress);
    if (moved == Moved::gone) {
      complaint_ = "the stream's other end has gone";
      return false;
    }
    idle = moved == Moved::some ? 0 : idle + 1;
    if (idle == 0) continue;
    if (idle < looks) {
      sched_yield();
      continue;
    }
    pollfd ready[2] = {{next_, static_cast<short>(progress.sent < bytes ? POLLOUT : 0), 0},
                       {previous_, static_cast<short>(progress.received < bytes ? POLLIN : 0), 0}};
    if (poll(ready, 2, 60'000) <= 0) {
      complaint_ = "the stream stood still for 60 s";
      return false;
    }
  }
  return true;
}

}  // namespace
}  // namespace tutti::perf

int main(int argc, char** argv) {
  tutti::perf::Limits contender;
  return tutti::perf::serve(contender, argc, argv);
}
