// The ranks of a communicator that are threads of this process, and their devices: where they meet, and the links between
// them.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "src/base/status.h"
#include "src/device/arena.h"
#include "src/executors/cuda/launch.h"
#include "src/schedule/ir.h"

namespace tutti {

class Team;

/// One communicator's ranks on devices. All of them are in this process. Thread safe.
class DeviceWorld : public std::enable_shared_from_this<DeviceWorld> {
 public:
  /// The world of the communicator that has this key; all its ranks here are given the same.
  static std::shared_ptr<DeviceWorld> of(const std::string& key, int ranks);

  explicit DeviceWorld(int ranks);
  ~DeviceWorld();
  DeviceWorld(const DeviceWorld&) = delete;
  DeviceWorld& operator=(const DeviceWorld&) = delete;

  int ranks() const { return static_cast<int>(members_.size()); }
  /// A rank says which device is its own. Waits for nobody.
  void join(int rank, std::shared_ptr<DeviceRuntime> runtime);
  /// Waits at most ns until all ranks have joined; whether they have.
  bool await_ranks(std::uint64_t ns);
  /// Those that have not.
  std::vector<int> missing() const;
  /// Once all have joined: forms the teams. Errors, the same for each rank: TUTTI_UNSUPPORTED (devices that do not reach
  /// each other); as DeviceRuntime::write. It waits for the devices.
  Status connect(const SetUpLimit& limit);

  // Once connected:
  Team& team(int rank) const { return *members_[static_cast<std::size_t>(rank)].team; }
  const std::shared_ptr<DeviceArena>& arena(int rank) const { return members_[static_cast<std::size_t>(rank)].arena; }
  /// The rank's ends of links, of all strands of a plan, as Job wants them. Links that are new are made, of the arenas'
  /// zeros. Errors: as DeviceArena::allocate_zeros.
  Result<std::vector<DeviceLinkEnd>> link_ends(int rank, std::span<const Link> links, const Plan& plan,
                                               const SetUpLimit& limit);

 private:
  struct Member {
    std::shared_ptr<DeviceRuntime> runtime;
    std::shared_ptr<DeviceArena> arena;
    Team* team = nullptr;
  };
  /// A link from one rank to another. Slots and what counts messages lie with the receiver, credit with the sender.
  struct Wire {
    cuda::DevicePointer at_sender = 0;
    cuda::DevicePointer at_receiver = 0;
    cuda::DevicePointer slots = 0;
    DeviceBlock slots_memory;  ///< unless they are lines, which begin as zeros
    bool made = false;         ///< else somebody is making it
  };
  /// Sender, receiver, channel, how messages go and how long they are: links of different protocols count by themselves.
  using WireKey = std::tuple<int, int, std::uint32_t, Protocol, std::uint64_t>;

  Member& member(int rank) { return members_[static_cast<std::size_t>(rank)]; }
  Status form(const SetUpLimit& limit);
  Status check_reach(const std::vector<int>& devices) const;
  Status make_wire(const WireKey& key, Wire& out, const SetUpLimit& limit) const;
  Result<const Wire*> wire(const WireKey& key, const SetUpLimit& limit);

  mutable std::mutex mutex_;  ///< guards what follows, until it is connected
  std::condition_variable joined_;
  std::vector<Member> members_;
  bool connected_ = false;
  Status connection_;
  std::vector<std::unique_ptr<Team>> teams_;
  std::mutex wires_mutex_;  ///< guards what follows
  std::condition_variable wired_;
  std::map<WireKey, Wire> wires_;
};

}  // namespace tutti
