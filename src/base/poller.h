// epoll with tags. A poller's own descriptor polls readable when anything in it is ready, so pollers nest.
#pragma once

#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <array>
#include <cstdint>
#include <span>

#include "src/base/unique_fd.h"

namespace tutti {

/// Waits for many descriptors. `watch` and `forget` may be called by any thread while another waits.
class Poller {
 public:
  struct Event {
    std::uint64_t tag = 0;
    bool readable = false;  ///< also where the peer closed or the descriptor failed: reading tells
    bool writable = false;
  };

  static constexpr std::size_t kMostEvents = 64;  ///< of one `wait`

  Poller() : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {}
  /// False where the system had no descriptor left; nothing else works then.
  explicit operator bool() const { return static_cast<bool>(epoll_); }
  int fd() const { return epoll_.get(); }

  /// Watches `fd` from now on, or changes what it is watched for. False where the system refuses.
  bool watch(int fd, std::uint64_t tag, bool read, bool write) {
    epoll_event event{};
    event.events = (read ? unsigned{EPOLLIN} : 0u) | (write ? unsigned{EPOLLOUT} : 0u);
    event.data.u64 = tag;
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0) return true;
    return errno == EEXIST && ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event) == 0;
  }
  /// Watches for each time that `fd` becomes readable, not for as long as it is.
  bool watch_edges(int fd, std::uint64_t tag) {
    epoll_event event{};
    event.events = EPOLLIN | EPOLLET;
    event.data.u64 = tag;
    return ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
  }
  /// Must come before the descriptor is closed where the descriptor has copies.
  void forget(int fd) { ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr); }

  /// What is ready, at most kMostEvents at a time, waiting at most timeout_ms (0: not at all, -1: for ever). The span is
  /// valid until the next call; one thread at a time.
  std::span<const Event> wait(int timeout_ms) {
    std::array<epoll_event, kMostEvents> ready;
    const int n = ::epoll_wait(epoll_.get(), ready.data(), static_cast<int>(ready.size()), timeout_ms);
    for (int i = 0; i < n; ++i) {
      const auto& event = ready[static_cast<std::size_t>(i)];
      events_[static_cast<std::size_t>(i)] = {event.data.u64, (event.events & ~unsigned{EPOLLOUT}) != 0,
                                              (event.events & EPOLLOUT) != 0};
    }
    return std::span(events_).first(n > 0 ? static_cast<std::size_t>(n) : 0);
  }

 private:
  UniqueFd epoll_;
  std::array<Event, kMostEvents> events_;
};

/// An eventfd that wakes a poller from another thread.
class WakeUp {
 public:
  WakeUp() : fd_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}
  int fd() const { return fd_.get(); }
  explicit operator bool() const { return static_cast<bool>(fd_); }
  /// Thread safe; async-signal-safe.
  void raise() const {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto n = ::write(fd_.get(), &one, sizeof one);
  }
  void clear() const {
    std::uint64_t count;
    [[maybe_unused]] const auto n = ::read(fd_.get(), &count, sizeof count);
  }

 private:
  UniqueFd fd_;
};

}  // namespace tutti
