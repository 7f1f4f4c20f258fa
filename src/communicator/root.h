// The place where ranks meet: introduces each to the few peers that it needs, then is done.
//
//     rank → root   join: who I am, how many we are, where I listen, how long I can wait
//     root → rank   introduction: a fresh nonce for the communicator's key, the neighbours' addresses
//     rank → root   ready: my connections stand (or: failed, with the error)
//     root → rank   failed, at any time before ready: the first error of this creation
//
// A root serves one communicator; once it has introduced all, it listens no longer. It fails the creation, telling
// everybody that is there and whoever comes later, when two ranks have the same number, sizes differ, a rank dies, or the
// first deadline passes. Ranks of the root's own process hear of it last, when all others have come and been told, or a
// second later: their process may end then, and the root with it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "src/base/status.h"
#include "src/communicator/channel.h"
#include "src/communicator/door.h"
#include "src/communicator/members.h"
#include "src/communicator/patience.h"

namespace tutti {

/// Purpose of handshakes with a root.
inline constexpr const char* kRootPurpose = "tutti rendezvous 2";
/// Frames between ranks and root. kTooLate: this meeting is over, try again with the next one.
enum RootFrame : std::uint8_t { kJoin = 1, kIntroduced, kReady, kCreationFailed, kTooLate };
/// Bytes of the nonce that makes one communicator's key differ from another's with the same id.
inline constexpr std::size_t kNonceBytes = 32;

/// Names one root among all, of all processes: two meetings may well have the same key. 0: none.
using RootNumber = std::uint64_t;

/// Whether another creation may follow at a root's place once this one has failed.
enum class Renewal {
  kNever,     ///< its key is for one creation, and nobody has it afterwards
  kNewId,     ///< likewise, but the key is in an id of the caller's: whoever comes later with it is told to make another
  kPossible,  ///< a rank that has heard of the failure and comes again means the next one, and is told to wait for that
};

/// What a rank tells the root.
struct JoinMessage {
  int ranks = 0;
  std::uint64_t left_ns = 0;   ///< how long it can wait from now
  std::uint64_t limit_ns = 0;  ///< its whole deadline, for the error's text
  Introduction self;
};
void pack_join(ByteWriter& out, const JoinMessage& message);
JoinMessage unpack_join(ByteReader& in);

/// The meeting's state, driven by one thread. Not thread safe.
class Root {
 public:
  /// number: what guests are told that it has. concluded: called once, when all are there and before anybody is told, or
  /// when it has failed and its own process is about to be told, or at its end (removes the file that led here). May be
  /// empty.
  Root(Listener listener, const Key& key, RootNumber number, Renewal renewal, std::function<void()> concluded);
  ~Root() { conclude(); }

  /// False where the system had no descriptor left: nobody would be heard.
  bool ready() const { return poller_ && door_ && door_->fd() >= 0; }
  /// Serves until the creation has succeeded, or some seconds after it has failed, or `wake` is raised and `stop` set.
  /// Throws nothing: without memory the creation fails, and its door and connections close.
  void serve(const WakeUp& wake, const std::atomic<bool>& stop);
  /// Makes the creation fail by `error`, unless it has failed; wants serve() to be woken. May be called by any thread.
  void give_up(Error error);
  /// The creation has failed, and all who were there have been told. May be asked by any thread.
  bool told() const { return told_.load(std::memory_order_acquire); }  // acquire: pairs with the release in tell

 private:
  struct Guest {
    Channel channel;
    std::optional<JoinMessage> join;
    bool ready = false;
    bool late = false;                    ///< it came after the creation had failed
    std::uint64_t until_ns = UINT64_MAX;  // of one that has not said yet who it is
  };

  void serve_all(const WakeUp& wake, const std::atomic<bool>& stop);
  int timeout_ms() const;
  void handle(const Poller::Event& event);
  void welcome(Arrival arrival);
  void read_from(std::uint64_t id);
  bool take(std::uint64_t id, Guest& guest, std::uint8_t type, std::span<const std::byte> payload);
  void take_join(std::uint64_t id, Guest& guest, std::span<const std::byte> payload);
  std::optional<Error> objection(const JoinMessage& join) const;
  void dismiss(std::uint64_t id);
  void dismiss_silent();
  void hear_door();
  void fail_in_time();
  void gone(std::uint64_t id);
  void hear_giving_up();
  void introduce_all();
  void introduce(std::uint64_t id, Guest& guest, std::span<const unsigned char> nonce,
                 std::span<const Introduction* const> by_rank);
  void conclude();
  void fail(Error error);
  void tell(bool own);
  void tell_last();
  Error late_error() const;
  bool means_the_next(const Member& member) const;
  bool is_own(const Guest& guest) const;
  bool all_heard() const { return ranks_ != 0 && heard_.size() == static_cast<std::size_t>(ranks_); }
  void send(std::uint64_t id, Guest& guest, RootFrame type, std::span<const std::byte> payload);
  Error deadline_error() const;
  std::uint64_t deadline_ns() const;
  bool done() const;

  Poller poller_;
  std::optional<Door> door_;  // until all are introduced
  const Renewal renewal_;
  std::function<void()> on_conclusion_;
  std::map<std::uint64_t, Guest> guests_;
  std::uint64_t next_id_;
  const Member self_ = this_member(-1);
  int ranks_ = 0;        // as the first guest said; 0: nobody has yet
  std::set<int> heard_;  // ranks that have said who they are
  bool introduced_ = false;
  std::optional<Error> failure_;
  std::uint64_t failed_ns_ = 0;
  std::vector<Member> told_members_;  // that have heard of the failure
  std::mutex giving_up_;              // guards the next
  std::optional<Error> given_up_;
  std::atomic<bool> told_{false};
  std::uint64_t own_told_ns_ = UINT64_MAX;  // when this process's own guests are told of the failure at the latest; 0: told
};

/// Starts a root of `key` on a background thread; it ends by itself when it is done, at stop_root, or with the process.
/// Nothing runs where it fails or throws. Errors: TUTTI_SYSTEM_ERROR.
Result<RootNumber> start_root(Listener listener, const Key& key, Renewal renewal, std::function<void()> concluded);

/// The root of this process that serves the unique id with that key, which no other has; 0 where it has none. Thread safe.
RootNumber root_of_id(const Key& key);

/// Ends that root, if this process has it. Thread safe; waits for its thread. Needs no memory.
void stop_root(RootNumber root);

/// A rank of this process has failed to join: that root, if this process has it, tells the others why, at once and for some
/// seconds to those who come late. Thread safe; does not wait.
void abandon_root(RootNumber root, const Error& error);

/// Ends those abandoned roots of this process that listen at any of the addresses, so that another one can. Thread safe;
/// waits for their threads.
void stop_abandoned_roots(std::span<const SocketAddress> addresses);

/// Waits until that root, if this process has it, has come to its end, for a second at most or until `patience` ends it,
/// and frees it. For a rank whose creation has succeeded: all others have said then that they are ready. Thread safe.
void finish_root(RootNumber root, const Patience& patience);

/// As finish_root, after a creation that failed: waits until the root has told all others why, for 2.5 s at most. This
/// process may end now, and the root with it. The deadline of `patience` has passed, perhaps, and does not count here.
void await_root_told(RootNumber root, const Patience& patience);

}  // namespace tutti
