// One peer as an endpoint knows it: its connections, its channels, and why it cannot be reached any more.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "include/tutti/transport.h"
#include "transports/tcp/card.h"
#include "transports/tcp/dialer.h"
#include "transports/tcp/link.h"
#include "transports/tcp/stream.h"

namespace tutti::tcp {

class Endpoint;

/// Both directions of one channel with one peer, and what the peer said of it, perhaps before this side opened it.
struct Channel {
  std::unique_ptr<Sender> sender;
  std::unique_ptr<Receiver> receiver;
  bool had_sender = false;  ///< opened once; an end that was given up is not opened again
  bool had_receiver = false;
  bool peer_receives = false;  ///< its open frame came, with these:
  std::uint64_t peer_window = 0;
  std::uint64_t peer_slot_bytes = 0;
  bool peer_stopped_sending = false;
  bool peer_stopped_receiving = false;
};

/// A peer. Links are spread over its connections by channel: channel c travels on socket c mod n.
///
/// Of two ranks the lower one connects, when its first link to the other opens, and says how many sockets there shall be;
/// links of both directions, whoever opened them, use those. So no two connections ever cross.
class Peer {
 public:
  Peer(Endpoint& endpoint, int rank) : endpoint_(endpoint), rank_(rank) {}

  int rank() const { return rank_; }
  /// "rank 3".
  std::string name() const { return "rank " + std::to_string(rank_); }

  /// The channel, made where it was not known; null where there are too many.
  Channel* channel(std::uint32_t number);
  Channel* find_channel(std::uint32_t number);

  /// Opens one end of a link and begins to connect where that is to be done. card: what the peer told of itself.
  /// Errors: TUTTI_INVALID_USAGE where that end was opened before.
  tutti_status open_link(const Card& card, const LinkShape& shape, bool sends, Link** link);
  /// Gives an end up and frees it.
  tutti_quiesced close_link(Link& link);

  /// Takes an authenticated connection as socket `index` of `count`. False where that is none of this peer's.
  bool adopt(const EndpointId& id, std::uint32_t index, std::uint32_t count, Descriptor socket, const std::string& remote);
  /// Goes on connecting.
  void dial(std::uint64_t now);
  /// It is known that nobody can be reached there.
  void unreachable(const std::string& sentence);

  /// Links wait for connections that are not there yet.
  bool waiting() const;
  /// There are links, or there were, so that connections are to be closed in order.
  const std::vector<std::unique_ptr<Stream>>& streams() const { return streams_; }

  // ---- From its connections and links.
  void stream_ended(Stream& stream, const std::string& sentence, bool orderly);
  /// Why a link is not open in time, or was closed by the peer: one sentence.
  std::string why_not_open(const Link& link) const;
  std::string why_closed(const Link& link) const;

 private:
  template <typename Action>
  void each_channel(const Action& action);
  Stream* stream_for(std::uint32_t channel) const;
  void connect_links(Stream& stream);
  static void meet(Channel& channel, Link& link);

  Endpoint& endpoint_;
  int rank_;
  std::optional<EndpointId> id_;  ///< as the card or the connection told it
  std::vector<std::unique_ptr<Channel>> low_channels_;
  std::unordered_map<std::uint32_t, std::unique_ptr<Channel>> high_channels_;
  std::vector<std::unique_ptr<Stream>> streams_;  ///< by index, null while not connected; empty before the first
  std::unique_ptr<Dialer> dialer_;
  std::string fault_;  ///< not empty: the peer is gone for good
};

}  // namespace tutti::tcp
