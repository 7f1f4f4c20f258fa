// The place where ranks meet: introduces each to the few peers that it needs, then is done.
//
//     rank → server   join: who I am, how many we are, where I listen, how long I can wait
//     server → rank   introduction: a fresh nonce for the communicator's key, the neighbours' addresses
//     rank → server   ready: my connections stand (or: failed, with the error)
//     server → rank   failed, at any time before ready: the first error of this creation
//     rank → server   notice, instead of join: who I am, and why I cannot take part; the server fails with that
//
// A server serves one communicator. It fails the creation, telling everybody that is there and whoever comes later, when
// two ranks have the same number, sizes differ, a rank dies or says that it cannot take part, or the first deadline passes.
// Ranks of the server's own process hear of it last, when all others have come and been told, or a second later: their
// process may end then, and the server with it.
//
// All servers of a process are served by one thread. Those of unique ids share one listening socket, at which a client says
// by the name of its key which of them it wants. An id has a server from its first client on. An id that was used answers
// so for as long as another is awaited at that socket; after a failure for 10 s at least.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "src/base/authenticated_acceptor.h"
#include "src/base/settings.h"
#include "src/base/status.h"
#include "src/bootstrap/unique_id.h"
#include "src/control/frame_channel.h"
#include "src/control/members.h"
#include "src/control/wait_limits.h"

namespace tutti {

/// Purpose of handshakes with a server.
inline constexpr const char* kRendezvousPurpose = "tutti rendezvous 3";
/// Frames between ranks and server. kTooLate: this rendezvous is over, try again with the next one.
enum RendezvousFrame : std::uint8_t { kJoin = 1, kIntroduced, kReady, kCreationFailed, kTooLate, kNotice };
/// Bytes of the nonce that makes one communicator's key differ from another's with the same id.
inline constexpr std::size_t kNonceBytes = 32;
/// A group of more ranks is refused.
inline constexpr int kMostRanks = 1 << 20;

/// Names one server among all, of all processes: two rendezvous may well have the same key. 0: none.
using ServerId = std::uint64_t;

/// Whether another creation may follow at a server's place once this one has failed.
enum class ReusePolicy {
  kNever,     ///< its key is for one creation, and nobody has it afterwards
  kNewId,     ///< likewise, but the key is in an id of the caller's: whoever comes later with it is told to make another,
              ///< after a success as well
  kPossible,  ///< a rank that has heard of the failure and comes again means the next one, and is told to wait for that
};

/// What a rank tells the server.
struct JoinMessage {
  int ranks = 0;
  std::uint64_t left_ns = 0;   ///< how long it can wait from now
  std::uint64_t limit_ns = 0;  ///< its whole deadline, for the error's text
  Introduction self;
};
void pack_join(ByteWriter& out, const JoinMessage& message);
JoinMessage unpack_join(ByteReader& in);

/// What a client says to a server first, within the handshake: which key it will prove. Tells nothing of the key itself.
std::vector<unsigned char> key_name(const Key& key);

/// The rendezvous's state. Used under the lock of those who serve it.
class RendezvousServer {
 public:
  /// poller: where its clients are watched, with tags from next_tag. concluded: called once, when all are there and before
  /// anybody is told, or when it has failed and its own process is about to be told, or at its end (removes the file that
  /// led here). May be empty.
  RendezvousServer(ReusePolicy reuse_policy, Poller& poller, std::uint64_t& next_tag, std::function<void()> concluded)
      : reuse_policy_(reuse_policy), poller_(poller), next_tag_(next_tag), on_conclusion_(std::move(concluded)) {}
  ~RendezvousServer();
  RendezvousServer(const RendezvousServer&) = delete;
  RendezvousServer& operator=(const RendezvousServer&) = delete;

  /// Of an id that has made a communicator of so many ranks; 0: of how many nobody knows any more.
  void mark_used(int ranks) {
    introduced_ = true;
    ranks_ = ranks;
  }
  /// Lets clients in by an acceptor of its own, until all are introduced. False where the system had no descriptor left:
  /// nobody would be heard.
  bool open_acceptor(Listener listener, const Key& key, std::vector<unsigned char> payload);
  /// Or somebody else lets them in, at that acceptor.
  void use_shared_acceptor(const Acceptor& shared) { shared_acceptor_ = &shared; }
  /// In a forked child, of its parent's: the acceptor of its own listens in the parent alone.
  void leave_listening_to_parent() {
    if (own_acceptor_) own_acceptor_->leave_listening_to_parent();
  }
  void take_client(AuthenticatedConnection accepted);
  /// Moves the client's connection along whose event it is.
  void handle(const Poller::Event& event);
  /// Does what time brings. To be called after each change, and at next_ns().
  void step();
  std::uint64_t next_ns() const;
  /// Makes the creation fail, unless it has failed already. Those who are there are told.
  void fail(Error error);
  /// The id serves a group of one. Errors: it has served another creation.
  Status use_up();
  /// Ends it where there is no memory for words: connections that close tell. Needs none.
  void end_without_memory(const Status& status) noexcept;

  /// The creation has failed, and all who were there have been told.
  bool told() const { return told_ && (told_from_ns_ == 0 || all_heard()); }
  bool failed() const { return !failure_.ok(); }
  /// Of the communicator that was made here; 0: of none.
  int ranks_made() const { return introduced_ && failure_.ok() ? ranks_ : 0; }
  /// It has done its work, and its clients are gone. What is left may answer those who come too late.
  bool over() const;
  /// Clients have come that are not gone.
  bool busy() const { return !clients_.empty(); }

 private:
  struct Client {
    FrameChannel channel;
    std::optional<JoinMessage> join;
    bool ready = false;
    bool late = false;                    ///< it came after the creation had failed, and belongs to no such
    std::uint64_t until_ns = UINT64_MAX;  // of one that has not said yet who it is, or that has its answer
  };

  void read_from(std::uint64_t id);
  bool take(std::uint64_t id, Client& client, std::uint8_t type, std::span<const std::byte> payload);
  void take_join(std::uint64_t id, Client& client, JoinMessage join, std::optional<Error> notice);
  std::optional<Error> objection(const JoinMessage& join) const;
  void dismiss(std::uint64_t id);
  void dismiss_silent_clients();
  void fail_in_time();
  void gone(std::uint64_t id);
  void close_acceptor();
  void introduce_all();
  void introduce(std::uint64_t id, Client& client, std::span<const unsigned char> nonce,
                 std::span<const Introduction* const> by_rank);
  void conclude();
  void tell(bool own);
  void tell_last();
  Error late_error() const;
  bool means_the_next(const Member& member) const;
  bool is_own(const Client& client) const;
  bool all_heard() const { return ranks_ != 0 && heard_.size() == static_cast<std::size_t>(ranks_); }
  void send(std::uint64_t id, Client& client, RendezvousFrame type, std::span<const std::byte> payload);
  void send_last(std::uint64_t id, Client& client, RendezvousFrame type, std::span<const std::byte> payload);
  /// Where its clients come in; nullptr: they are led in.
  const Acceptor* acceptor() const { return own_acceptor_ ? &*own_acceptor_ : shared_acceptor_; }
  Error shortage_error(Error so_far) const;
  Error deadline_error() const;
  std::uint64_t deadline_ns() const;
  std::uint64_t shut_ns() const;

  const ReusePolicy reuse_policy_;
  Poller& poller_;
  std::uint64_t& next_tag_;
  const Member self_ = this_member(-1);
  std::optional<Acceptor> own_acceptor_;
  const Acceptor* shared_acceptor_ = nullptr;
  std::function<void()> on_conclusion_;
  std::map<std::uint64_t, Client> clients_;
  std::unordered_map<int, std::uint64_t> client_of_rank_;  // of those that have joined
  int ranks_ = 0;                                          // as the first client said; 0: nobody has yet
  std::set<int> heard_;                                    // ranks that have said who they are
  bool introduced_ = false;
  Status failure_;
  bool expired_ = false;  // by its deadline
  std::uint64_t failed_ns_ = 0;
  std::vector<Member> told_members_;  // that have heard of the failure
  bool told_ = false;
  std::uint64_t told_from_ns_ = 0;  // not before, unless all have been heard; 0: at once
  std::uint64_t own_told_ns_ =
      UINT64_MAX;  // when this process's own clients are told of the failure at the latest; 0: told
};

/// Starts a server of `key` with an acceptor of its own; it ends by itself when it is done, at stop_server, or with the
/// process. Nothing runs where it fails or throws. file: the path that leads to it; empty: none. Errors:
/// TUTTI_SYSTEM_ERROR.
Result<ServerId> start_server(Listener listener, const Key& key, ReusePolicy reuse_policy, std::function<void()> concluded,
                              const std::string& file = {});

/// A server that a new id leads to.
struct IdServer {
  ServerId number = 0;
  tutti_unique_id id;
};
/// Starts one at the listening socket that all ids of this process share, which is opened for the first: one for each
/// choice of interfaces and ports, a few at most. Likewise otherwise. Errors: TUTTI_SYSTEM_ERROR, TUTTI_INVALID_ARGUMENT
/// (interfaces).
Result<IdServer> start_id_server(const std::string& interfaces, const PortRange& ports, ReusePolicy reuse_policy);

/// The server of this process that serves the unique id with that key, which no other has, or answers for it; 0 where it
/// has none. Thread safe.
ServerId server_of_id(const Key& key);

/// The id with that key serves a group of one. Errors, where this process has it: that it has served already. Thread safe.
Status use_up_id(const Key& key);

/// The error of a rank that comes with the id of that key, where this process made it, it was used, and the socket at which
/// the rank would hear so is closed. Thread safe.
Status refusal_of_id(const Key& key);

/// Ends that server, if this process has it. Thread safe. Needs no memory.
void stop_server(ServerId server);

/// A rank of this process has failed to join: that server, if this process has it, tells the others why, at once and for
/// some seconds to those who come late. Thread safe; does not wait.
void abandon_server(ServerId server, const Error& error);

/// Ends those abandoned servers of this process that listen at any of the addresses, so that another one can. Thread safe.
void stop_abandoned_servers(std::span<const SocketAddress> addresses);
/// Ends those abandoned servers of this process that a file at this path led to: their places are taken by the next one, so
/// that retries hold no more descriptors than one try. Thread safe.
void stop_abandoned_servers(const std::string& file);

/// Waits until that server, if this process has it, has come to its end, for a second at most or until `wait_limits` ends
/// it. For a rank whose creation has succeeded: all others have said then that they are ready. Thread safe.
void finish_server(ServerId server, const WaitLimits& wait_limits);

/// As finish_server, after a creation that failed: waits until the server has told all others why, for 2.5 s at most. This
/// process may end now, and the server with it. The deadline of `wait_limits` has passed, perhaps, and does not count here.
void await_failure_told(ServerId server, const WaitLimits& wait_limits);

}  // namespace tutti
