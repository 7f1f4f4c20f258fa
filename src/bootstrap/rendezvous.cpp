#include "src/bootstrap/rendezvous.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "src/base/exception_boundary.h"
#include "src/base/plural.h"
#include "src/bootstrap/rendezvous_address.h"

namespace tutti {

namespace {

constexpr std::uint64_t kLastWordsNs = 3'000'000'000;  // for a rank 0 that cannot open the rendezvous to tell the others

ControlPlane::Options control_options(const std::string& name, const Settings& settings, int rank, int ranks) {
  ControlPlane::Options options;
  options.rank = rank;
  options.ranks = ranks;
  options.name = name;
  if (settings.idle_timeout_ns != 0) options.idle_timeout_ns = settings.idle_timeout_ns;
  return options;
}

// What becomes a membership, on its way there.
struct Formation {
  std::unique_ptr<ControlPlane> control;
  Introduction self;
  Key key{};
  std::vector<Introduction> neighbours;
  ServerLink server;
};

Result<Listener> open_formation(Formation& forming, const ControlPlane::Options& options, const JoinRequest& request) {
  auto control = ControlPlane::make(options);
  if (!control) return control.status();
  forming.control = std::move(control).value();
  forming.self.member = this_member(options.rank);
  forming.self.member.global = request.global;
  if (options.ranks == 1) return Listener{};
  auto listener = listen_for(request.settings);
  if (listener) forming.self.addresses = listener->addresses;
  return listener;
}

Status give_up(Formation& forming, const Status& status) {
  const Error error = for_others(status, forming.self.member);
  if (forming.server.channel.open()) {
    ByteWriter out;
    pack_error(out, error);
    forming.server.channel.send(kCreationFailed, out.bytes());
  }
  forming.control->report(error);
  return status;
}

Result<std::vector<Member>> exchange_members(Formation& forming, const MakeBlob& make_blob, const WaitLimits& wait_limits) {
  Member& self = forming.self.member;
  self.activity_fd = forming.control->board().fd();
  self.activity_inode = forming.control->board().inode();
  if (make_blob) {
    auto blob = make_blob(forming.key, forming.control->rank(), forming.control->ranks());
    if (!blob) return named(blob.status(), self);
    self.blob = std::move(blob).value();
  }
  ByteWriter out;
  pack_member(out, self);
  auto all = forming.control->allgather(out.bytes(), wait_limits);
  if (!all) return all.status();
  std::vector<Member> members;
  for (const auto& bytes : *all) {
    ByteReader in(bytes);
    members.push_back(unpack_member(in));
    if (in.complete() && members.back().rank == static_cast<int>(members.size()) - 1) continue;
    return Status(TUTTI_INTERNAL_ERROR,
                  "rank " + std::to_string(members.size() - 1) + " described itself in another format",
                  "Use the same version of Tutti on all ranks");
  }
  return members;
}

// From introductions to a membership: connects, says "ready" to the server, exchanges what all shall know.
Result<Membership> form(Formation forming, Acceptor waiting, const MakeBlob& make_blob, const WaitLimits& wait_limits) {
  ControlPlane& control = *forming.control;
  {
    Acceptor acceptor = std::move(waiting);
    Status connected = connect_neighbours(control, acceptor, forming.neighbours, forming.key, forming.server, wait_limits);
    if (!connected) return give_up(forming, connected);
  }
  if (forming.server.channel.open()) {
    forming.server.channel.send(kReady, {});
    forming.server.channel.close();
  }
  auto members = exchange_members(forming, make_blob, wait_limits);
  if (!members) return give_up(forming, members.status());
  control.set_members(*members);
  Membership membership;
  membership.rank = control.rank();
  membership.ranks = control.ranks();
  membership.key = forming.key;
  membership.members = std::move(members).value();
  membership.control = std::move(forming.control);
  return membership;
}

Result<Membership> join_alone(const JoinRequest& request) {
  if (request.id != nullptr) {
    const auto contents = unpack_unique_id(*request.id);
    if (!contents) return contents.status();
    if (Status unused = use_up_id(contents->key); !unused) return unused;
  }
  Formation forming;
  auto listener = open_formation(forming, control_options(request.name, request.settings, 0, 1), request);
  if (!listener) return listener.status();
  forming.key = random_key();
  return form(std::move(forming), Acceptor(Listener{}), request.blob, request.wait_limits);
}

Key communicator_key(const Key& point, std::span<const unsigned char> nonce) {
  return derive_key(point, "communicator " + std::string(nonce.begin(), nonce.end()));
}

// The server or the neighbours have heard of a failure, or `point` has it told to them.
Result<Membership> join_at(const JoinRequest& request, Formation forming, Listener listener, const RendezvousPoint& point) {
  Acceptor acceptor(std::move(listener));
  auto introduced = introduce(point, forming.self, forming.control->ranks(), acceptor, request.wait_limits);
  if (!introduced) return introduced.status();
  forming.key = communicator_key(introduced->key, introduced->nonce);
  forming.neighbours = std::move(introduced->neighbours);
  const ServerId server = introduced->server.number;
  forming.server = std::move(introduced->server);
  auto membership = form(std::move(forming), std::move(acceptor), request.blob, request.wait_limits);
  if (membership) {
    finish_server(server, request.wait_limits);
  } else if (membership.status().code() != TUTTI_ABORTED) {  // whoever aborts does not wait
    await_failure_told(server, request.wait_limits);
  }
  return membership;
}

// Rank 0 could not open the rendezvous, perhaps for want of what it holds itself: a port, a descriptor. Tries once more
// without that, to tell the others.
Status without_server(const JoinRequest& request, const RankAndSize& place, const Status& failure, Listener listener) {
  const Status failed = named(failure, this_member(place.rank));
  if (failed.code() != TUTTI_SYSTEM_ERROR || request.bootstrap != nullptr) return failure;
  listener = {};
  JoinRequest brief = request;
  brief.wait_limits.deadline.at_ns = std::min(brief.wait_limits.deadline.at_ns, Deadline::in(kLastWordsNs).at_ns);
  auto point = open_rendezvous(brief, place, failed);
  if (point) leave_notice(*point, this_member(place.rank), place.ranks, failed, brief.wait_limits);
  return failed;
}

}  // namespace

Result<RankAndSize> place_of(const JoinRequest& request) {
  RankAndSize place{request.rank, request.ranks};
  const bool ask = !request.address.empty() && (place.rank == -1 || place.ranks == -1);
  if (ask) {
    auto launched = read_launcher(request.environment, request.settings.port_range.low, request.settings.port_range.high);
    if (!launched) return launched.status();
    if (place.rank == -1) place.rank = launched->rank;
    if (place.ranks == -1) place.ranks = launched->ranks;
  }
  if (place.ranks < 1 || place.ranks > kMostRanks) {
    return Status(TUTTI_INVALID_ARGUMENT, "A group of " + std::to_string(place.ranks) + " ranks cannot be",
                  "The number of ranks is 1 to " + std::to_string(kMostRanks));
  }
  if (place.rank < 0 || place.rank >= place.ranks) {
    return Status(TUTTI_INVALID_ARGUMENT,
                  "Rank " + std::to_string(place.rank) + " is outside a group of " + plural(place.ranks, "rank"),
                  "Ranks count from 0 to the number of ranks less 1");
  }
  return place;
}

// A rank that is none of the group: the others wait for the one that it should be.
Status outside(const JoinRequest& request, const Status& failure) {
  const bool heard = request.bootstrap == nullptr && request.rank > 0 && request.rank <= kMostRanks && request.ranks > 1 &&
                     request.ranks <= kMostRanks;
  if (!heard) return failure;
  auto point = open_rendezvous(request, {request.rank, request.ranks}, failure);
  if (point) leave_notice(*point, this_member(request.rank), request.ranks, failure, request.wait_limits);
  return failure;
}

Result<Membership> join(const JoinRequest& request) {
  auto place = place_of(request);
  if (!place) return outside(request, request.so_far.ok() ? place.status() : request.so_far);
  if (place->ranks == 1) return request.so_far.ok() ? join_alone(request) : request.so_far;
  const Member self = this_member(place->rank);
  Formation forming;
  Listener listener;
  Status failed = request.so_far;
  if (failed.ok()) {
    failed = catching([&] {
      auto opened =
          open_formation(forming, control_options(request.name, request.settings, place->rank, place->ranks), request);
      if (opened) listener = std::move(opened).value();
      return opened.status();
    });
  }
  failed = named(failed, self);
  if (!failed) forming = {};  // to say so takes descriptors, too
  auto point = open_rendezvous(request, *place, failed);
  if (!point && failed.ok() && place->rank == 0)
    return without_server(request, *place, point.status(), std::move(listener));
  if (!point) return failed.ok() ? point.status() : failed;
  if (!failed) {
    leave_notice(*point, self, place->ranks, failed, request.wait_limits);
    return failed;
  }
  std::optional<Membership> membership;
  const Status joined = catching([&] {
    auto made = join_at(request, std::move(forming), std::move(listener), *point);
    if (made) membership = std::move(made).value();
    return made.status();
  });
  if (joined) return std::move(*membership);
  point->abandon(joined, self, request.wait_limits);
  return joined;
}

// ---- Communicators made from others.

namespace {

// What each rank tells the others.
struct Contribution {
  Status failure;  // it cannot take part
  int color = 0;
  int key = 0;
  std::array<unsigned char, kNonceBytes> nonce{};
  std::vector<int> connected;  // ranks of the parent that it has a connection with, ascending
  Introduction self;           // rank: the parent's
};

std::vector<std::byte> pack_contribution(const Contribution& told) {
  ByteWriter out;
  out.u8(told.failure.ok() ? 1 : 0);
  if (!told.failure.ok()) pack_error(out, for_others(told.failure, told.self.member));
  out.i32(told.color);
  out.i32(told.key);
  out.raw(std::span<const unsigned char>(told.nonce));
  out.u32(static_cast<std::uint32_t>(told.connected.size()));
  for (const int rank : told.connected) out.i32(rank);
  pack_introduction(out, told.self);
  return out.take();
}

Result<Contribution> unpack_contribution(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  Contribution told;
  if (in.u8() == 0) told.failure = Status(unpack_error(in));
  told.color = in.i32();
  told.key = in.i32();
  in.copy(told.nonce);
  for (std::uint32_t n = in.u32(); n != 0 && in.ok(); --n) told.connected.push_back(in.i32());
  told.self = unpack_introduction(in);
  if (!in.complete()) return Status(TUTTI_INTERNAL_ERROR, "A rank sent a malformed split");
  return told;
}

// The members of one color, in their new order.
Result<std::vector<Contribution>> group_of(int color, const std::vector<std::vector<std::byte>>& all) {
  std::vector<Contribution> group;
  for (const auto& bytes : all) {
    auto told = unpack_contribution(bytes);
    if (!told) return told.status();
    if (!told->failure.ok()) return told->failure;
    if (told->color == color) group.push_back(std::move(told).value());
  }
  std::ranges::sort(group, {}, [](const Contribution& told) { return std::pair(told.key, told.self.member.rank); });
  return group;
}

// A rank that takes part: what it tells, and where those call it that have no connection with it.
struct Joining {
  Contribution told;
  Acceptor acceptor{Listener{}};
  std::unique_ptr<ActivityBoard> board = std::make_unique<ActivityBoard>();
};

Joining joining_by(const ControlPlane& parent, const PartRequest& request) {
  Joining own;
  own.told.nonce = random_key();
  own.told.connected = parent.connected();
  Member& self = own.told.self.member;
  self = parent.member(parent.rank());
  if (request.global >= 0) self.global = request.global;
  self.activity_fd = own.board->fd();
  self.activity_inode = own.board->inode();
  self.blob = request.blob;
  own.told.failure = request.so_far;
  return own;
}

// Where this rank may have neighbours that it has no connection with.
void listen_for_neighbours(Joining& own, const Settings& settings) {
  if (!own.told.failure.ok()) return;
  auto opened = listen_for(settings);
  own.told.failure = opened.status();
  if (opened) own.acceptor = Acceptor(std::move(opened).value());
  own.told.self.addresses = own.acceptor.addresses();
}

// One of them says so: the other's is on its way to it then.
bool are_connected(const Contribution& one, const Contribution& other) {
  return std::ranges::binary_search(one.connected, other.self.member.rank) ||
         std::ranges::binary_search(other.connected, one.self.member.rank);
}

// Neighbours of `rank`, with their new ranks, that are connected with it, or are not.
std::vector<Introduction> neighbours_of(const std::vector<Contribution>& group, int rank, bool connected) {
  std::vector<Introduction> all;
  for (const int near : neighbours(rank, static_cast<int>(group.size()))) {
    const Contribution& told = group[static_cast<std::size_t>(near)];
    if (are_connected(told, group[static_cast<std::size_t>(rank)]) != connected) continue;
    all.push_back(told.self);
    all.back().member.rank = near;
  }
  return all;
}

// A number for those who know the key. It is told in clear, so it says nothing of that.
std::uint64_t context_of(const Key& key) {
  const Key derived = derive_key(key, "context");
  std::uint64_t context = 0;
  std::memcpy(&context, derived.data(), sizeof context);
  return context;
}

// The child's, of which this rank is `rank`, without a control plane.
std::unique_ptr<Membership> membership_of(const std::vector<Contribution>& group, int rank, const Key& key) {
  auto membership = std::make_unique<Membership>();
  membership->rank = rank;
  membership->ranks = static_cast<int>(group.size());
  membership->key = key;
  membership->context = context_of(key);
  for (const Contribution& told : group) {
    membership->in_parent.push_back(told.self.member.rank);
    membership->members.push_back(told.self.member);
    Member& member = membership->members.back();
    if (member.global < 0) member.global = member.rank;
    member.rank = static_cast<int>(membership->members.size()) - 1;
  }
  return membership;
}

// Sees that it has a connection with each neighbour.
Status connect_part(const Membership& membership, const std::vector<Contribution>& group, Joining& own,
                    const WaitLimits& wait_limits) {
  ControlPlane& control = *membership.control;
  const auto missing = neighbours_of(group, membership.rank, false);
  if (!missing.empty()) {
    ServerLink none;
    Status status = connect_neighbours(control, own.acceptor, missing, membership.key, none, wait_limits);
    if (!status) return status;
  }
  std::vector<int> others;
  for (const Introduction& other : neighbours_of(group, membership.rank, true)) others.push_back(other.member.rank);
  if (Status status = control.await_connections(others, wait_limits); !status) return status;
  control.set_members(membership.members);
  return {};
}

// The membership, or with what it failed, which its own plane tells the others.
Result<std::unique_ptr<Membership>> joined(std::unique_ptr<Membership> membership, Status status) {
  if (status) return membership;
  membership->control->report(for_others(status, membership->members[static_cast<std::size_t>(membership->rank)]));
  return status;
}

}  // namespace

Result<std::unique_ptr<Membership>> split(ControlPlane& parent, const Key& parent_key, const SplitRequest& request) {
  Joining own = joining_by(parent, request);
  own.told.color = request.color;
  own.told.key = request.key;
  const bool is_connected_to_all = static_cast<int>(own.told.connected.size()) == parent.ranks() - 1;
  if (request.color >= 0 && !is_connected_to_all) listen_for_neighbours(own, request.settings);
  own.told.failure = named(own.told.failure, own.told.self.member);
  auto all =
      parent.allgather(pack_contribution(own.told), request.wait_limits, {"split", request.operation, request.history});
  if (!all) return all.status();
  auto group = group_of(request.color, *all);
  if (!group) return group.status();
  if (request.color < 0) return std::unique_ptr<Membership>();

  const auto self =
      std::ranges::find_if(*group, [&](const Contribution& told) { return told.self.member.rank == parent.rank(); });
  const int rank = static_cast<int>(self - group->begin());
  const auto& nonce = group->front().nonce;
  const Key key = derive_key(parent_key, "split " + std::string(nonce.begin(), nonce.end()));
  auto membership = membership_of(*group, rank, key);
  auto control = ControlPlane::make_part(parent, control_options(request.name, request.settings, rank, membership->ranks),
                                         membership->in_parent, membership->context, std::move(own.board));
  if (!control) {  // no peer of the child's can hear of it, only the parent's
    parent.report(for_others(control.status(), own.told.self.member));
    return control.status();
  }
  membership->control = std::move(control).value();
  Status status = connect_part(*membership, *group, own, request.wait_limits);
  // One that gave up once it had told its part has no plane by which the others would learn of it.
  if (status) status = membership->control->allgather({}, request.wait_limits, {"split"}).status();
  return joined(std::move(membership), std::move(status));
}

Result<std::unique_ptr<Membership>> join_members(ControlPlane& parent, const Key& parent_key,
                                                 const MembersRequest& request) {
  const int ranks = static_cast<int>(request.members.size());
  const int rank = static_cast<int>(std::ranges::find(request.members, parent.rank()) - request.members.begin());
  Joining own = joining_by(parent, request);
  own.told.key = rank;
  ByteWriter purpose;
  purpose.text("members");
  for (const int member : request.members) purpose.i32(member);
  purpose.u64(request.tag);
  purpose.u64(request.attempt);
  const auto bytes = purpose.bytes();
  const Key key = derive_key(parent_key, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  auto control = ControlPlane::make_part(parent, control_options(request.name, request.settings, rank, ranks),
                                         request.members, context_of(key), std::move(own.board), ControlPlane::Routed::yes);
  if (!control) return control.status();
  const auto lacks = [&](int near) {
    return !std::ranges::binary_search(own.told.connected, request.members[static_cast<std::size_t>(near)]);
  };
  if (std::ranges::any_of(neighbours(rank, ranks), lacks)) listen_for_neighbours(own, request.settings);
  own.told.failure = named(own.told.failure, own.told.self.member);
  auto all = (*control)->allgather(pack_contribution(own.told), request.wait_limits, {"create_members"});
  if (!all) return all.status();
  auto group = group_of(0, *all);
  if (!group) return group.status();
  auto membership = membership_of(*group, rank, key);
  membership->control = std::move(control).value();
  Status status = connect_part(*membership, *group, own, request.wait_limits);
  return joined(std::move(membership), std::move(status));
}

}  // namespace tutti
