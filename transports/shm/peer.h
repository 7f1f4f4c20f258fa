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

#include "src/base/unique_fd.h"
#include "transports/near/local_connection.h"
#include "transports/shm/channel_pair.h"
#include "transports/shm/layout.h"
#include "transports/shm/region.h"

namespace tutti::shm {

class Endpoint;
class SenderLink;
class ReceiverLink;

/// A sender's announcement that no receiver has taken yet.
struct OfferedLink {
  ControlMessage message;
  SharedFd memory;
};

/// The connection and its contents. Belongs to its endpoint, and is used by the endpoint's thread only.
///
///     idle → greeting (the connection stands) → ready → gone
class Peer {
 public:
  enum class Stage { kIdle, kGreeting, kReady, kGone };

  Peer(Endpoint& endpoint, int rank);
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  int rank() const { return connection_.rank(); }
  Stage stage() const { return stage_; }
  const std::string& why_gone() const { return connection_.why_ended(); }
  /// How it is connected, or why not.
  const near::LocalConnection& connection() const { return connection_; }
  EndpointPage* page() const { return page_; }

  /// Names the peer's address; begins to connect where that is ours to do.
  void meet(const near::LocalAddress& address);
  /// Takes over a connection that has come in; false: there is one already.
  bool adopt(UniqueFd socket);
  /// Does what can be done now: connects, receives, sends. True where anything moved.
  bool advance();

  /// Queues a message and sends as much as goes.
  void post(Packet packet);
  bool drained() const { return outbox_.empty(); }
  /// Whether something waits that the peer cannot do without. That links and regions are gone it hears in time.
  bool owes() const { return !outbox_.empty() && !says_only_what_is_gone(); }
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

  /// Of a channel; it lives as long as a link of it, and as memory that the peer may still say something of.
  ChannelPair& channel_pair(std::uint64_t channel) { return channel_pairs_[channel]; }
  void add(SenderLink& link);
  void add(ReceiverLink& link);
  void remove(SenderLink& link);
  void remove(ReceiverLink& link);
  bool has_sender(std::uint64_t channel) const;
  bool has_receiver(std::uint64_t channel) const;
  /// The oldest announcement for `channel`, taken out; nothing where there is none.
  std::optional<OfferedLink> take_offered(std::uint64_t channel);

 private:
  bool says_only_what_is_gone() const;
  bool connect();
  bool receive();
  bool flush();
  std::string name() const { return connection_.name(); }
  void greet();
  bool lost_connection();
  bool send_front(const Packet& packet);
  void watch_output();
  void end(std::string why);
  void gone();
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
  void take_close_receiver(const ControlMessage& message);
  void sweep_channel(std::uint64_t channel);
  SenderLink* sender_of(const ControlMessage& message) const;

  Endpoint& endpoint_;
  near::LocalConnection connection_;
  Stage stage_ = Stage::kIdle;
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

  // By channel.
  std::map<std::uint64_t, ChannelPair> channel_pairs_;
  std::map<std::uint64_t, SenderLink*> senders_;
  std::map<std::uint64_t, ReceiverLink*> receivers_;
  std::multimap<std::uint64_t, OfferedLink> offered_;  ///< of one channel the oldest first
  std::unordered_map<std::uint64_t, std::unique_ptr<PeerRegion>> regions_;
  // The region that was asked for last: links use one for a long time.
  std::uint64_t last_region_id_ = UINT64_MAX;
  PeerRegion* last_region_ = nullptr;
};

}  // namespace tutti::shm
