// Where peers come in: listening sockets, and the connections that have not yet proved to be a peer's.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/base/handshake.h"
#include "src/base/unique_fd.h"
#include "transports/tcp/dialer.h"
#include "transports/tcp/frame.h"
#include "transports/tcp/watcher.h"

namespace tutti::tcp {

class Endpoint;

/// An accepted connection before it is attached: its handshake, then the one frame that says which socket it is. A way
/// that lost against a faster one is closed by its other side in this state.
class Guest final : public Watcher {
 public:
  Guest(Endpoint& endpoint, UniqueFd socket, std::string remote, std::uint64_t until_ns);
  ~Guest() override;

  void ready(std::uint32_t events) override;
  /// To be removed: closed, refused, attached or out of time.
  bool done(std::uint64_t now) const { return done_ || now >= until_ns_; }
  bool proved() const { return proved_; }
  bool silent() const { return !spoke_; }

 private:
  void shake();
  void take_attach();
  void refuse(const std::string& why);

  Endpoint& endpoint_;
  UniqueFd socket_;
  std::string remote_;
  std::uint64_t until_ns_;
  std::uint64_t watch_ = 0;
  Handshake handshake_;
  DialIntroduction other_;
  bool proved_ = false;
  bool spoke_ = false;
  bool done_ = false;
  FrameHeader attach_;
  std::size_t attach_bytes_ = 0;
};

/// The endpoint's listening sockets and their guests. Strangers cost little: there are never more than kMostGuests that
/// have not proved themselves, the silent ones go first when there are more, and each has a deadline.
class Gate {
 public:
  explicit Gate(Endpoint& endpoint) : endpoint_(endpoint) {}

  /// Watches the sockets; takes them over.
  void open(std::vector<UniqueFd> sockets);
  /// Drops guests whose time is over.
  void sweep(std::uint64_t now);
  /// Whether `sweep` has something to do before long.
  bool busy() const { return !guests_.empty() || paused_until_ns_ != 0; }

 private:
  static constexpr std::size_t kMostGuests = 64;
  static constexpr int kAcceptedAtOnce = 64;
  static constexpr std::uint64_t kStrangerLimit = 5'000'000'000;
  static constexpr std::uint64_t kPauseNs = 10'000'000;

  class Door final : public Watcher {
   public:
    Door(Gate& gate, UniqueFd socket) : gate_(gate), socket_(std::move(socket)) {}
    void ready(std::uint32_t) override { gate_.accept(socket_.get()); }
    int fd() const { return socket_.get(); }
    std::uint64_t watch = 0;

   private:
    Gate& gate_;
    UniqueFd socket_;
  };

  void accept(int socket);
  void make_room();
  /// Of the first so many guests, a silent one first; false: there is none.
  bool drop_stranger(std::size_t among);
  void pause();
  void resume();

  Endpoint& endpoint_;
  std::vector<std::unique_ptr<Door>> doors_;
  std::vector<std::unique_ptr<Guest>> guests_;  ///< the oldest first
  std::uint64_t paused_until_ns_ = 0;           ///< nobody is let in, for want of descriptors; 0: not so
  bool short_ = false;                          ///< likewise, and that has been said
};

}  // namespace tutti::tcp
