#include "src/device/world.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "src/base/exception_boundary.h"
#include "src/base/made_once.h"
#include "src/device/team.h"

namespace tutti {
namespace {

constexpr std::uint64_t slots = 4;  ///< of a link: a sender is that far ahead

/// Where what lies in a wire's memory.
struct SenderPart {
  device::Word64 carried;
  device::Word64 credit;
};
struct ReceiverPart {
  device::Word64 carried;
  device::Word64 arrived;
  device::Word64 fingerprints[slots];
};

}  // namespace

std::shared_ptr<DeviceWorld> DeviceWorld::of(const std::string& key, int ranks) {
  static constinit std::mutex mutex;
  static constinit MadeOnce<std::map<std::string, std::weak_ptr<DeviceWorld>>> worlds;
  const std::lock_guard lock(mutex);
  auto& all = worlds.get();
  std::erase_if(all, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<DeviceWorld>& known = all[key];
  auto world = known.lock();
  if (world == nullptr) known = world = std::make_shared<DeviceWorld>(ranks);
  return world;
}

DeviceWorld::DeviceWorld(int ranks) : members_(static_cast<std::size_t>(ranks)) {}
DeviceWorld::~DeviceWorld() = default;

void DeviceWorld::join(int rank, std::shared_ptr<DeviceRuntime> runtime) {
  {
    const std::lock_guard lock(mutex_);
    if (member(rank).runtime == nullptr) member(rank).runtime = std::move(runtime);
  }
  joined_.notify_all();
}

std::vector<int> DeviceWorld::missing() const {
  const std::lock_guard lock(mutex_);
  std::vector<int> ranks;
  for (std::size_t r = 0; r < members_.size(); ++r) {
    if (members_[r].runtime == nullptr) ranks.push_back(static_cast<int>(r));
  }
  return ranks;
}

bool DeviceWorld::await_ranks(std::uint64_t ns) {
  std::unique_lock lock(mutex_);
  return joined_.wait_for(lock, std::chrono::nanoseconds(ns), [this] {
    return std::all_of(members_.begin(), members_.end(), [](const Member& each) { return each.runtime != nullptr; });
  });
}

Status DeviceWorld::connect(const SetUpLimit& limit) {
  const std::lock_guard lock(mutex_);
  if (!connected_) connection_ = form(limit);
  connected_ = true;
  return connection_;
}

Status DeviceWorld::check_reach(const std::vector<int>& devices) const {
  const cuda::Driver& driver = members_[0].runtime->driver();
  for (const int from : devices) {
    for (const int to : devices) {
      int can = 1;
      if (from != to) {
        const Status status = driver.call(
            driver.api().cuDeviceCanAccessPeer, from,
            [to] { return fmt::format("asking whether it reaches device {}", to); }, &can, from, to);
        if (!status.ok()) return status;
      }
      if (can != 0) continue;
      return Status(
          TUTTI_UNSUPPORTED,
          fmt::format("device {} cannot access the memory of device {}; links by way of the host come later", from, to),
          "Use devices that reach each other, or host memory.");
    }
  }
  return {};
}

Status DeviceWorld::form(const SetUpLimit& limit) {
  std::set<int> ordinals;
  for (const Member& each : members_) ordinals.insert(each.runtime->device());
  const std::vector<int> devices(ordinals.begin(), ordinals.end());
  if (Status status = check_reach(devices); !status.ok()) return status;
  std::map<DeviceRuntime*, std::vector<int>> ranks_of;
  for (int r = 0; r < ranks(); ++r) ranks_of[member(r).runtime.get()].push_back(r);
  for (const auto& [runtime, of] : ranks_of) {
    std::vector<int> others;
    for (const int device : devices) {
      if (device != runtime->device()) others.push_back(device);
    }
    const auto arena = std::make_shared<DeviceArena>(member(of[0]).runtime, others);
    if (Status status = arena->stock_zeros(of.size(), limit); !status.ok()) return status;
    for (const int r : of) member(r).arena = arena;
    auto team = Team::make(member(of[0]).arena, of, limit);
    if (!team.ok()) return team.status();
    for (const int r : of) member(r).team = team->get();
    teams_.push_back(std::move(*team));
  }
  return {};
}

/// Without the lock: where no zeros are left it waits for the device. A launch there may wait for a rank that is about to
/// look for other wires.
Status DeviceWorld::make_wire(const WireKey& key, Wire& out, const SetUpLimit& limit) const {
  const auto& [sender, receiver, channel, protocol, message_bytes] = key;
  const std::uint64_t slots_bytes = slots * slot_bytes_of(protocol, message_bytes);
  const auto at_sender = arena(sender)->allocate_zeros(sizeof(SenderPart), limit);
  if (!at_sender.ok()) return at_sender.status();
  const auto at_receiver = arena(receiver)->allocate_zeros(sizeof(ReceiverPart), limit);
  if (!at_receiver.ok()) return at_receiver.status();
  out.at_sender = *at_sender;
  out.at_receiver = *at_receiver;
  if (protocol == Protocol::lines) {  // of no message they are 0
    const auto lines = arena(receiver)->allocate_zeros(slots_bytes, limit);
    if (!lines.ok()) return lines.status();
    out.slots = *lines;
  } else {
    auto memory = arena(receiver)->allocate(slots_bytes);
    if (!memory.ok()) return memory.status();
    out.slots = memory->address();
    out.slots_memory = std::move(*memory);
  }
  out.made = true;
  return {};
}

Result<const DeviceWorld::Wire*> DeviceWorld::wire(const WireKey& key, const SetUpLimit& limit) {
  std::unique_lock lock(wires_mutex_);
  for (;;) {
    const auto [found, fresh] = wires_.try_emplace(key);
    if (!fresh && found->second.made) return &found->second;
    if (fresh) break;
    if (Status status = limit.check("another rank to make a link"); !status.ok()) return status;
    wired_.wait_for(lock, std::chrono::milliseconds(10));
  }
  lock.unlock();
  Wire made;
  const Status status = catching([&] { return make_wire(key, made, limit); });
  lock.lock();
  const auto own = wires_.find(key);
  if (status.ok()) {
    own->second = std::move(made);
  } else {
    wires_.erase(own);
  }
  wired_.notify_all();
  if (!status.ok()) return status;
  return &own->second;
}

Result<std::vector<DeviceLinkEnd>> DeviceWorld::link_ends(int rank, std::span<const Link> links, const Plan& plan,
                                                          const SetUpLimit& limit) {
  std::vector<DeviceLinkEnd> ends;
  for (std::uint32_t s = 0; s < plan.strands; ++s) {
    for (const Link& link : links) {
      const auto [sender_rank, receiver_rank] = link.sends ? std::pair{rank, link.peer} : std::pair{link.peer, rank};
      const auto found = wire(
          {sender_rank, receiver_rank, Strand{s, plan.strands}.channel(link.channel), plan.protocol, plan.message_bytes},
          limit);
      if (!found.ok()) return found.status();
      const Wire& own = **found;
      auto* const sender = reinterpret_cast<SenderPart*>(own.at_sender);
      auto* const receiver = reinterpret_cast<ReceiverPart*>(own.at_receiver);
      ends.push_back({link.sends ? &sender->carried : &receiver->carried, &receiver->arrived, &sender->credit,
                      receiver->fingerprints, reinterpret_cast<std::byte*>(own.slots), slots,
                      slot_bytes_of(plan.protocol, plan.message_bytes), link.peer});
    }
  }
  return ends;
}

}  // namespace tutti
