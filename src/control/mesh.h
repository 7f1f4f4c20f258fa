// The connections of one rank to others, and the thread that sleeps on them. A communicator makes them when it is created.
// All that are made from it share them: they take no thread and no connection.
//
//     plane of "world"   ─┐                                ┌─ connection to rank 1
//     plane of "world/0" ─┼─ frames, each with its context ┼─ connection to rank 2
//     plane of "world/1" ─┘                                └─ …
//
// A context is a number that all ranks of a plane share and no other plane has. Frames of one that this rank does not know
// yet wait until it does: its peers may have made theirs before.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "src/base/poller.h"
#include "src/base/status.h"
#include "src/base/unique_fd.h"
#include "src/control/frame_channel.h"
#include "src/control/members.h"

namespace tutti {

/// Thread safe where a function says nothing else; those "with the lock held" are for planes, which share its lock.
class Mesh {
 public:
  /// Types of frames. kBeat has no context, and says no more than that its rank lives.
  enum Frame : std::uint8_t {
    kGoodbye = 1,
    kHeartbeat,
    kFailure,
    kGather,
    kQuery,
    kReply,
    kAround,  ///< a query for which the target's neighbours say what they know, too
    kBeat,
    kRouted,  ///< a frame of another plane, on its way to one that this rank may have no connection with
  };

  /// A connection to the process of one rank.
  struct Connection {
    int rank = -1;  ///< in the communicator that the mesh was made for
    Member about;
    FrameChannel channel;
    UniqueFd process;            ///< pidfd, where pids mean the same here and there
    std::uint64_t heard_ns = 0;  ///< when its rank last said anything
    std::uint64_t ended_ns = 0;  ///< when its process was seen to have ended; 0: runs
    std::uint64_t number = 0;    ///< of its events

    bool open() const { return channel.open(); }
  };

  /// Whose frames pass here: what the mesh asks of it, each time with the lock held.
  class Plane {
   public:
    virtual ~Plane() = default;
    /// A frame of its context, from a rank of the mesh.
    virtual void take(int from, Frame type, std::span<const std::byte> payload) = 0;
    /// Nothing more comes from that rank. how: what befell it, the rest of a sentence; static. Needs no memory.
    virtual void ended(int rank, const char* how) noexcept = 0;
    /// Does what is due by now; when it wants to be asked again. Throws std::bad_alloc.
    virtual std::uint64_t look(std::uint64_t now) = 0;
    /// Tells its peers what it does, where that is news to them.
    virtual void beat() = 0;
    /// Says goodbye to its peers. Once.
    virtual void farewell() = 0;
    /// There was no memory for what may have been of this plane.
    virtual void starved(const Status& status) noexcept = 0;
    /// How long a rank may be silent.
    virtual std::uint64_t idle_timeout_ns() const = 0;
  };

  /// Without connections yet. ranks: with one there is no thread. Errors: TUTTI_SYSTEM_ERROR (no descriptor or thread).
  static Result<std::shared_ptr<Mesh>> make(int ranks);
  /// Its last plane has been removed, or there never was one.
  ~Mesh();
  Mesh(const Mesh&) = delete;
  Mesh& operator=(const Mesh&) = delete;

  std::mutex& mutex() { return mutex_; }
  /// Whatever a plane may wait for has changed.
  std::condition_variable& changed() { return changed_; }

  // ---- With the lock held.
  /// Gives the plane its frames, those first that came already. False: the mesh ends.
  bool add(std::uint64_t context, Plane& plane);
  /// Hands over an authenticated connection, non-blocking, to a rank of the mesh.
  Connection& add(int rank, UniqueFd fd, UniqueFd process, const Member& about);
  /// One that is open; null where there is none.
  Connection* connection(int rank);
  void send(Connection& connection, Frame type, std::uint64_t context, std::span<const std::byte> payload);
  /// A frame for a plane of this rank, whether it is there or not.
  void dispatch(std::uint64_t context, int from, Frame type, std::span<const std::byte> payload);
  /// As `look` says, but sooner.
  void look_at(std::uint64_t at_ns) { next_look_ns_ = std::min(next_look_ns_, at_ns); }

  // ---- Without it.
  /// Has the thread look at what is due.
  void wake() const { wake_.raise(); }
  /// The plane has said goodbye and is asked nothing more. talks_to: ranks that still may send frames of its context. Where
  /// it is the last one the connections are closed, which takes at most 50 ms, and the thread ends. Throws nothing.
  void remove(std::uint64_t context, std::vector<int> talks_to) noexcept;

  /// At exit: a last goodbye of all planes, without waiting for anything.
  void farewell();

 private:
  Mesh() = default;
  Status start();
  void run();
  void look_once();
  int timeout_ms() const;
  void handle(const Poller::Event& event);
  void read_from(Connection& connection);
  bool take(Connection& connection, std::uint8_t type, std::span<const std::byte> payload);
  void keep(std::uint64_t context, int from, Frame type, std::span<const std::byte> payload);
  void over(Connection& connection, const char* how);
  void close(Connection& connection);
  void look(std::uint64_t now);
  void look_for_ends(std::uint64_t now, bool was_away);
  std::uint64_t least_idle_timeout_ns() const;
  void finish();
  bool all_closed() const;

  /// A frame that came before its plane.
  struct Early {
    int from;
    Frame type;
    std::vector<std::byte> payload;
  };

  bool remembered_ = false;  ///< by the process, for its exit
  std::mutex mutex_;         ///< guards what follows
  std::condition_variable changed_;
  Poller poller_;
  WakeUp wake_;
  std::thread thread_;
  std::list<Connection> connections_;
  std::uint64_t numbers_ = 0;  ///< of connections, ever
  std::map<std::uint64_t, Plane*> planes_;
  std::map<std::uint64_t, std::vector<Early>> early_;
  /// Contexts of planes that are gone, and from whom frames of them may still come.
  std::map<std::uint64_t, std::vector<int>> gone_;
  bool finishing_ = false;
  bool stopping_ = false;
  std::uint64_t next_look_ns_ = 0;
  std::uint64_t next_beat_ns_ = 0;
  std::uint64_t last_look_ns_ = 0;
};

}  // namespace tutti
