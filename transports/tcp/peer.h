// One peer as an endpoint knows it: its connections, its channels, and why it cannot be reached any more.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "include/tutti/transport.h"
#include "src/base/status.h"
#include "src/base/unreachable_timer.h"
#include "transports/tcp/card.h"
#include "transports/tcp/dialer.h"
#include "transports/tcp/link.h"
#include "transports/tcp/stream.h"

namespace tutti::tcp {

class Endpoint;

/// One direction of a channel over time. A direction may be opened again once its end was given up: its lives are told
/// apart by counting the closes of both ends, which the connection keeps in order with everything else. An end that the
/// peer gives up before this side opens it is given up here, too, so that both count alike and may forget the channel.
struct Direction {
  std::int64_t ahead = 0;  ///< times that this side gave its end up, less the peer's
  bool peer_open = false;  ///< the peer has its end open, in its current life, with these:
  std::uint64_t peer_window = 0;
  std::uint64_t peer_slot_bytes = 0;

  void closes() { ++ahead; }
  void peer_closes() {
    --ahead;
    peer_open = false;
  }
  /// The peer's frames belong to a life that has ended here.
  bool stale() const { return ahead > 0; }
  /// The peer gave up its end of the life that is current here.
  bool closed_by_peer() const { return ahead < 0; }
  /// Both ends are in the same life, and the peer's is open.
  bool met() const { return ahead == 0 && peer_open; }
  /// Nothing is known of it.
  bool fresh() const { return ahead == 0 && !peer_open; }
};

/// Both directions of one channel with one peer, and what the peer said of it, perhaps before this side opened it.
struct LinkPair {
  std::unique_ptr<Sender> sender;
  std::unique_ptr<Receiver> receiver;
  Direction sending;
  Direction receiving;

  Direction& direction(bool of_sender) { return of_sender ? sending : receiving; }
  TcpLink* link(bool sends) const { return sends ? static_cast<TcpLink*>(sender.get()) : receiver.get(); }
  bool has_links() const { return sender || receiver; }
};

/// A peer. Links are spread over its connections by channel: channel c travels on socket c mod n.
///
/// Whoever opens the first link connects, and says how many sockets there shall be; links of both directions, whoever
/// opened them, use those. Where both connect at once, the lower rank's connections stay: it turns the other's away while
/// its own get on, and the other, which waits for the answer to its attach frame before it uses a connection, takes them.
class Peer {
 public:
  Peer(Endpoint& endpoint, int rank) : endpoint_(endpoint), rank_(rank) {}

  int rank() const { return rank_; }
  /// "rank 3".
  std::string name() const { return "rank " + std::to_string(rank_); }

  /// The channel, made where it was not known; null where there are too many.
  LinkPair* channel(std::uint64_t number);
  /// Null: it is not known. Quick for the channel that was asked for last.
  LinkPair* find_channel(std::uint64_t number) {
    return last_ != nullptr && number == last_number_ ? last_ : look_up_channel(number);
  }
  /// Frees the channel where both ends of its links are gone, or this side's are and the peer for good.
  void forget_if_unused(std::uint64_t number);

  /// Opens one end of a link and begins to connect where that is to be done. card: what the peer told of itself.
  /// Errors: TUTTI_INVALID_USAGE where that end is open already, or channels are too many.
  Result<TcpLink*> open_link(const Card& card, const LinkShape& shape, bool sends);
  /// Gives an end up, once: its life ends for the peer's frames, too. What became of the caller's memory.
  tutti_quiesced quiesce(TcpLink& link);
  /// Gives an end up and frees it.
  void close_link(TcpLink& link);

  /// Takes a connection that this side made, and that the peer has taken, as socket `index` of `count`.
  void adopt(std::uint32_t index, std::uint32_t count, UniqueFd socket, const std::string& remote);
  /// Takes one that the peer made, and tells it so. False where it is not wanted.
  bool accept(const EndpointId& id, std::uint32_t index, std::uint32_t count, UniqueFd socket, const std::string& remote);
  /// Goes on connecting; gives up where nobody has been there for the endpoint's time to connect altogether. Who is
  /// there and does not answer is late, not lost: how long that is borne is the caller's to say.
  void dial(std::uint64_t now);
  /// It is known that nobody can be reached there.
  void unreachable(const std::string& sentence);

  /// Links wait for connections that are not there yet.
  bool waiting() const;
  /// There are links, or there were, so that connections are to be closed in order.
  const std::vector<std::unique_ptr<Stream>>& streams() const { return streams_; }

  // ---- From its connections and links.
  /// Tells a link what the peer has said of its channel.
  void meet(LinkPair& channel, bool sends);
  void stream_ended(Stream& stream, const std::string& sentence, bool orderly);
  /// Why a link was closed by the peer: one sentence.
  std::string why_closed(const TcpLink& link) const;

 private:
  LinkPair* look_up_channel(std::uint64_t number);
  Stream* stream_for(std::uint64_t channel) const;
  Stream& add_stream(std::uint32_t index, std::uint32_t count, UniqueFd socket, const std::string& remote);
  void connect_links(Stream& stream);
  /// The peer's machine has taken a connection.
  bool reached() const;

  Endpoint& endpoint_;
  int rank_;
  std::optional<EndpointId> id_;  ///< as the card or the connection told it
  std::unordered_map<std::uint64_t, std::unique_ptr<LinkPair>> channels_;
  std::uint64_t last_number_ = 0;                 ///< of the channel that was asked for last, which most frames come for
  LinkPair* last_ = nullptr;                      ///< that one; null: it was not known, or is gone
  std::vector<std::unique_ptr<Stream>> streams_;  ///< by index, null while not connected; empty before the first
  std::unique_ptr<Dialer> dialer_;
  UnreachableTimer absence_;  ///< of any connection, while the dialer is at it
  std::string fault_;         ///< not empty: the peer is gone for good
};

}  // namespace tutti::tcp
