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

Result<Listener> open_formation(Formation& forming, const ControlPlane::Options& options, const Settings& settings) {
  auto control = ControlPlane::make(options);
  if (!control) return control.status();
  forming.control = std::move(control).value();
  forming.self.member = this_member(options.rank);
  if (options.ranks == 1) return Listener{};
  auto listener = listen_for(settings);
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
  auto listener = open_formation(forming, control_options(request.name, request.settings, 0, 1), request.settings);
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
      auto opened = open_formation(forming, control_options(request.name, request.settings, place->rank, place->ranks),
                                   request.settings);
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

// ---- Split.

namespace {

// What each rank of the parent tells all others.
struct Half {
  Status failure;  // it cannot take part
  int color = 0;
  int key = 0;
  std::array<unsigned char, kNonceBytes> nonce{};
  std::vector<int> connected;  // ranks of the parent that it has a connection with, ascending
  Introduction self;           // rank: the parent's
};

std::vector<std::byte> pack_half(const Half& half) {
  ByteWriter out;
  out.u8(half.failure.ok() ? 1 : 0);
  if (!half.failure.ok()) pack_error(out, for_others(half.failure, half.self.member));
  out.i32(half.color);
  out.i32(half.key);
  out.raw(std::span<const unsigned char>(half.nonce));
  out.u32(static_cast<std::uint32_t>(half.connected.size()));
  for (const int rank : half.connected) out.i32(rank);
  pack_introduction(out, half.self);
  return out.take();
}

Result<Half> unpack_half(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  Half half;
  if (in.u8() == 0) half.failure = Status(unpack_error(in));
  half.color = in.i32();
  half.key = in.i32();
  in.copy(half.nonce);
  for (std::uint32_t n = in.u32(); n != 0 && in.ok(); --n) half.connected.push_back(in.i32());
  half.self = unpack_introduction(in);
  if (!in.complete()) return Status(TUTTI_INTERNAL_ERROR, "A rank sent a malformed split");
  return half;
}

// The members of one color, in their new order.
Result<std::vector<Half>> group_of(int color, const std::vector<std::vector<std::byte>>& all) {
  std::vector<Half> group;
  for (const auto& bytes : all) {
    auto half = unpack_half(bytes);
    if (!half) return half.status();
    if (!half->failure.ok()) return half->failure;
    if (half->color == color) group.push_back(std::move(half).value());
  }
  std::sort(group.begin(), group.end(), [](const Half& a, const Half& b) {
    return std::pair(a.key, a.self.member.rank) < std::pair(b.key, b.self.member.rank);
  });
  return group;
}

/// What this rank tells, but for its addresses.
Half half_of(const ControlPlane& parent, const SplitRequest& request, const ActivityBoard& board) {
  Half mine;
  mine.color = request.color;
  mine.key = request.key;
  mine.nonce = random_key();
  mine.connected = parent.connected();
  Member& self = mine.self.member;
  self = this_member(parent.rank());
  self.activity_fd = board.fd();
  self.activity_inode = board.inode();
  self.blob = request.blob;
  mine.failure = request.so_far;
  return mine;
}

/// Both ends say so: connections may be on their way between them for another split.
bool are_connected(const Half& one, const Half& other) {
  return std::ranges::binary_search(one.connected, other.self.member.rank) &&
         std::ranges::binary_search(other.connected, one.self.member.rank);
}

/// The child's, of which this rank is `rank`, without a control plane.
Membership membership_of(const std::vector<Half>& group, int rank, const Key& parent_key) {
  Membership membership;
  membership.rank = rank;
  membership.ranks = static_cast<int>(group.size());
  const auto& nonce = group.front().nonce;
  membership.key = derive_key(parent_key, "split " + std::string(nonce.begin(), nonce.end()));
  // It is told in clear, so it must say nothing of the key.
  const Key context = derive_key(membership.key, "context");
  std::memcpy(&membership.context, context.data(), sizeof membership.context);
  for (const Half& half : group) {
    membership.in_parent.push_back(half.self.member.rank);
    membership.members.push_back(half.self.member);
    membership.members.back().rank = static_cast<int>(membership.members.size()) - 1;
  }
  return membership;
}

/// Neighbours of `rank` that it has no connection with.
std::vector<Introduction> strangers(const std::vector<Half>& group, int rank) {
  std::vector<Introduction> all;
  for (const int near : neighbours(rank, static_cast<int>(group.size()))) {
    const Half& half = group[static_cast<std::size_t>(near)];
    if (are_connected(half, group[static_cast<std::size_t>(rank)])) continue;
    all.push_back(half.self);
    all.back().member.rank = near;
  }
  return all;
}

}  // namespace

Result<std::unique_ptr<Membership>> split(ControlPlane& parent, const Key& parent_key, const SplitRequest& request) {
  auto board = std::make_unique<ActivityBoard>();
  Half mine = half_of(parent, request, *board);
  Acceptor acceptor{Listener{}};
  const bool knows_all = static_cast<int>(mine.connected.size()) == parent.ranks() - 1;
  if (request.color >= 0 && mine.failure.ok() && !knows_all) {
    auto opened = listen_for(request.settings);
    mine.failure = opened.status();
    if (opened) acceptor = Acceptor(std::move(opened).value());
    mine.self.addresses = acceptor.addresses();
  }
  mine.failure = named(mine.failure, mine.self.member);
  auto all = parent.allgather(pack_half(mine), request.wait_limits, {"split", request.operation, request.history});
  if (!all) return all.status();
  auto group = group_of(request.color, *all);
  if (!group) return group.status();
  if (request.color < 0) return std::unique_ptr<Membership>();

  const auto own = std::ranges::find_if(*group, [&](const Half& half) { return half.self.member.rank == parent.rank(); });
  const int rank = static_cast<int>(own - group->begin());
  auto membership = std::make_unique<Membership>(membership_of(*group, rank, parent_key));
  auto control = ControlPlane::make_part(parent, control_options(request.name, request.settings, rank, membership->ranks),
                                         membership->in_parent, membership->context, std::move(board));
  if (!control) {  // no peer of the child's can hear of it, only the parent's
    parent.report(for_others(control.status(), mine.self.member));
    return control.status();
  }
  membership->control = std::move(control).value();
  const auto missing = strangers(*group, rank);
  ServerLink none;
  if (!missing.empty()) {
    Status connected =
        connect_neighbours(*membership->control, acceptor, missing, membership->key, none, request.wait_limits);
    if (!connected) {
      membership->control->report(for_others(connected, membership->members[static_cast<std::size_t>(rank)]));
      return connected;
    }
  }
  membership->control->set_members(membership->members);
  return membership;
}

}  // namespace tutti
