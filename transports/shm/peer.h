// One peer of an endpoint: the socket that both keep open, what came over it, and the links that go to and from it.
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "src/base/handshake.h"
#include "src/base/unique_fd.h"
#include "transports/shm/layout.h"
#include "transports/shm/machine.h"
#include "transports/shm/region.h"
#include "transports/shm/socket.h"

namespace tutti::shm {

class Endpoint;
class SenderLink;
class ReceiverLink;

/// A sender's announcement that no receiver has taken yet.
struct OfferedLink {
  ControlMessage message;
  SharedFd memory;
};

/// Memory of a sending link that is gone.
struct RetiredMemory {
  std::uint64_t serial;
  Mapping mapping;
  LinkLayout layout;
};

/// What the two links of a channel, there and back, have to tell each other.
struct ChannelPair {
  CreditUpdate our_credit;       ///< what our receiving link has released: our sending link's messages say so
  CreditUpdate peer_credit;      ///< what the peer's messages said of our sending link's
  SenderLink* sender = nullptr;  ///< while there is one, and likewise
  ReceiverLink* receiver = nullptr;
  /// Of our former sending links, the oldest first: messages of the peer's may still lie in them, for whichever receiving
  /// link reads them.
  std::list<RetiredMemory> gone;
};

/// The connection and its contents. Belongs to its endpoint, and is used by the endpoint's thread only.
///
///     idle → connecting → shaking hands → greeting → ready → gone        the higher rank connects
///     idle → greeting (the endpoint has accepted and shaken hands) → ready → gone        the lower rank waits
class Peer {
 public:
  enum class Stage { kIdle, kConnecting, kHandshake, kGreeting, kReady, kGone };

  Peer(Endpoint& endpoint, int rank) : endpoint_(endpoint), rank_(rank) {}
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  int rank() const { return rank_; }
  Stage stage() const { return stage_; }
  std::uint32_t pid() const { return pid_; }
  const std::string& why_gone() const { return why_; }
  /// It is there, connected or about to be: one that does not answer is late, not lost.
  bool reached() const { return stage_ > Stage::kConnecting || probe_; }
  /// What went wrong last while connecting, for the sentence of a link that gave up waiting; may be empty.
  const std::string& trouble() const { return trouble_; }
  EndpointPage* page() const { return page_; }

  /// Names the peer's address; begins to connect where that is ours to do.
  void meet(const EndpointAddress& address);
  /// Takes over a connection whose handshake the endpoint has completed; false: there is one already.
  bool adopt(UniqueFd socket);
  /// Does what can be done now: connects, shakes hands, receives, sends. True where anything moved.
  bool advance();

  /// Queues a message and sends as much as goes.
  void post(Packet packet);
  bool drained() const { return outbox_.empty(); }
  /// Wakes the peer where it sleeps.
  void ring() const;

  /// The region of that id, or null: unknown so far.
  PeerRegion* region(std::uint64_t id) { return id == last_region_id_ ? last_region_ : find_region(id); }
  /// Takes the announcement of one of our own regions back; false: it is under way, or has been sent.
  bool unpost_region(std::uint64_t id);
  /// Whether its process can write nothing of ours any more: it has ended, or said that it is through with us.
  bool fenced() const { return fenced_; }
  /// A link of ours has written into the peer's memory for the last time, for now.
  void put_ended();
  /// Frees forgotten regions that nobody holds.
  void sweep_regions();

  /// Of a channel; it lives as long as this.
  ChannelPair& returns(std::uint32_t channel) { return channel_pair_[channel]; }
  void add(SenderLink& link);
  void add(ReceiverLink& link);
  void remove(SenderLink& link);
  void remove(ReceiverLink& link);
  bool has_sender(std::uint32_t channel) const;
  bool has_receiver(std::uint32_t channel) const;
  /// The oldest announcement for `channel`, taken out; nothing where there is none.
  std::optional<OfferedLink> take_offered(std::uint32_t channel);

 private:
  bool connect();
  bool probe();
  void pause();
  bool shake();
  bool receive();
  bool flush();
  void greet();
  void settle_handshake();
  bool lost_connection();
  void connected_to_self();
  bool send_front(const Packet& packet);
  void watch_output();
  void drop_socket();
  void retry(std::string trouble);
  void end(std::string why);
  void handle(Packet& packet);
  void take_hello(const Packet& packet);
  void take_link(const Packet& packet);
  void take_region(const Packet& packet);
  void refuse_region(std::uint64_t id, const std::string& why);
  void forget_region(std::uint64_t id);
  void region_refused(std::uint64_t id);
  bool writes() const;
  PeerRegion* find_region(std::uint64_t id);
  void take_close_sender(const ControlMessage& message);
  SenderLink* sender_of(const ControlMessage& message) const;
  int output() const { return to_self_ ? to_self_.get() : socket_.get(); }

  Endpoint& endpoint_;
  const int rank_;
  Stage stage_ = Stage::kIdle;
  std::string why_;
  std::string trouble_;
  std::uint32_t pid_ = 0;

  EndpointAddress address_;
  bool met_ = false;  ///< address_ is known
  UniqueFd socket_;
  UniqueFd probe_;    ///< see `probe`
  UniqueFd to_self_;  ///< a rank's connection to itself has both ends here
  std::optional<Handshake> handshake_;
  std::uint64_t retry_at_ns_ = 0;
  std::uint64_t retry_pause_ns_ = 0;
  bool watching_output_ = false;
  bool fenced_ = false;
  UniqueFd parting_;  ///< given up, but not closed while we write the peer's memory: its end says that nobody does

  std::optional<Packet> greeting_;  ///< goes before everything else, and alone until the peer's has come
  std::deque<Packet> outbox_;
  std::size_t sent_ = 0;  ///< bytes of the packet that is being sent
  Packet incoming_;
  std::size_t received_ = 0;  ///< bytes of incoming_

  Mapping page_mapping_;
  EndpointPage* page_ = nullptr;
  SharedFd doorbell_;

  std::map<std::uint32_t, ChannelPair> channel_pair_;
  std::map<std::uint32_t, SenderLink*> senders_;
  std::map<std::uint32_t, ReceiverLink*> receivers_;
  std::list<OfferedLink> offered_;
  std::unordered_map<std::uint64_t, std::unique_ptr<PeerRegion>> regions_;
  // The region that was asked for last: links use one for a long time.
  std::uint64_t last_region_id_ = UINT64_MAX;
  PeerRegion* last_region_ = nullptr;
};

}  // namespace tutti::shm
