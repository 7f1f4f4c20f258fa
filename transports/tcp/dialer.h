// Connecting to a peer: all its addresses at once, the first that proves to be the peer wins.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/base/addresses.h"
#include "src/base/authenticated_connector.h"
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
inline constexpr const char* kPurpose = "tutti tcp 2";

/// One socket to a peer in the making: connected by one of several ways, then attached as socket `index`.
class Attempt final : public Watcher {
 public:
  enum class Phase { kConnecting, kProved, kAttaching, kAttached };

  Attempt(Endpoint& endpoint, const Card& card, std::vector<SocketAddress> ways, std::uint32_t index);
  ~Attempt() override;

  /// Goes on where it is time.
  void step(std::uint64_t now);
  void ready(std::uint32_t events) override;

  /// Asks the peer to take this connection; only where it has proved itself.
  void attach(std::uint32_t sockets);
  Phase phase() const { return phase_; }
  /// Nobody listens there: every way was refused again and again.
  bool hopeless() const { return phase_ == Phase::kConnecting && connector_->is_turned_away(kRefusals); }
  /// A connection has been made, which may not have been answered yet.
  bool connected() const { return phase_ != Phase::kConnecting || connector_->is_taken(); }
  /// This process had nothing left to make a connection with, last time.
  bool starved() const { return phase_ == Phase::kConnecting && connector_->starved() != 0; }
  std::uint32_t index() const { return index_; }
  /// Where the connection leads; only once it has proved itself.
  const SocketAddress& way() const { return way_; }
  /// "10.0.0.1:4242: Connection refused".
  std::string text() const;
  UniqueFd take_socket();

 private:
  static constexpr int kRefusals = 5;
  void restart();
  void proved();
  void take_answer();
  void failed(const char* why, int error = 0);

  Endpoint& endpoint_;
  EndpointId wanted_;
  std::vector<SocketAddress> ways_;
  std::uint64_t stagger_ns_;
  std::uint32_t index_;
  Phase phase_ = Phase::kConnecting;
  std::optional<Connector> connector_;
  std::uint64_t watch_ = 0;  ///< of the connector while connecting, else of the socket
  UniqueFd socket_;
  SocketAddress way_;
  FrameHeader answer_;
  std::size_t answer_bytes_ = 0;
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
