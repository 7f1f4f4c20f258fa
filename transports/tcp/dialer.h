// Connecting to a peer: all its addresses at once, the first that proves to be the peer wins.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/base/addresses.h"
#include "src/base/handshake.h"
#include "src/base/unique_fd.h"
#include "transports/tcp/card.h"
#include "transports/tcp/frame.h"
#include "transports/tcp/watcher.h"

namespace tutti::tcp {

class Endpoint;
class Peer;

/// What both sides tell in the handshake, authenticated by it.
struct DialIntroduction {
  EndpointId self{};   ///< who speaks
  EndpointId other{};  ///< whom it means; zeros from the accepting side
  std::int32_t rank = -1;

  std::vector<unsigned char> pack() const;
  static std::optional<DialIntroduction> unpack(std::span<const unsigned char> bytes);
};

/// The purpose that the handshake of this transport proves.
inline constexpr const char* kPurpose = "tutti tcp 1";

/// One try to connect to one address, begun again after failures.
class Attempt final : public Watcher {
 public:
  enum class Phase { kWaiting, kConnecting, kShaking, kProved, kAttaching, kAttached };

  Attempt(Endpoint& endpoint, const SocketAddress& way, std::uint32_t index, std::uint64_t start_ns)
      : endpoint_(endpoint), way_(way), index_(index), retry_ns_(start_ns) {}
  ~Attempt() override;

  /// Begins, or begins again, where it is time.
  void step(std::uint64_t now, const Card& card, Key key);
  void ready(std::uint32_t events) override;

  /// Asks the peer to take this connection; only where it has proved itself.
  void attach(std::uint32_t sockets);
  Phase phase() const { return phase_; }
  /// Nobody listens there: it was refused again and again.
  bool hopeless() const { return refusals_ >= kRefusals; }
  std::uint32_t index() const { return index_; }
  const SocketAddress& way() const { return way_; }
  /// This process had nothing left to make a connection with, last time.
  bool starved() const;
  /// "10.0.0.1:4242 (connection refused)".
  std::string text() const;
  UniqueFd take_socket();

 private:
  static constexpr int kRefusals = 5;
  void begin(const Card& card, Key key);
  void shake();
  void take_answer();
  void failed(const std::string& why, bool refused);

  Endpoint& endpoint_;
  SocketAddress way_;
  std::uint32_t index_;
  std::uint64_t retry_ns_;
  std::uint64_t pause_ns_ = 5'000'000;
  int refusals_ = 0;
  Phase phase_ = Phase::kWaiting;
  UniqueFd socket_;
  std::uint64_t watch_ = 0;
  EndpointId wanted_{};
  std::optional<Handshake> handshake_;
  FrameHeader answer_;
  std::size_t answer_bytes_ = 0;
  std::string last_;
};

/// Makes all the connections to one peer.
class Dialer {
 public:
  Dialer(Endpoint& endpoint, Peer& peer, const Card& card);

  void step(std::uint64_t now);
  bool finished() const { return finished_; }
  /// Somebody is there: a connection has been made, which may not have been answered yet.
  bool connected() const;
  /// Somebody is there, or was: it is worth going on.
  bool promising() const { return chosen_ || connected(); }
  /// As Attempt's, of all of them.
  bool starved() const;
  /// The addresses that were tried, and what came of it.
  std::string tried() const;

 private:
  void choose_way();
  void take_attached();

  Endpoint& endpoint_;
  Peer& peer_;
  Card card_;
  std::uint32_t sockets_;
  bool chosen_ = false;  ///< the way is settled, and so are the attempts: one for each socket
  bool first_taken_ = false;
  bool finished_ = false;
  std::vector<std::unique_ptr<Attempt>> attempts_;
};

}  // namespace tutti::tcp
