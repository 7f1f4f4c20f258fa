#include "transports/shm/shm.h"

#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <string>

#include "src/base/descriptor_limit.h"
#include "src/base/link_shape.h"
#include "src/base/memory_file.h"
#include "transports/shm/endpoint.h"
#include "transports/shm/link.h"

// The C face. `tutti_endpoint` and `tutti_link` are never defined: their pointers are those of Endpoint and Link.
namespace tutti::shm {
namespace {

// Estimates for a pair that shares a cache or a memory controller; measured values replace them (tutti-perf).
constexpr double kBandwidth = 10e9;
constexpr double kLatency = 250e-9;
constexpr std::uint32_t kPreference = 100;
/// Four for each class of traffic's endpoint, and for one peer its socket, its doorbell and two on their way.
constexpr std::uint64_t kLeastDescriptors = 12;

Endpoint& of(tutti_endpoint* endpoint) { return *reinterpret_cast<Endpoint*>(endpoint); }
ShmLink& of(tutti_link* link) { return *reinterpret_cast<ShmLink*>(link); }
SenderLink& sender(tutti_link* link) { return static_cast<SenderLink&>(of(link)); }
ReceiverLink& receiver(tutti_link* link) { return static_cast<ReceiverLink&>(of(link)); }
OwnRegion* of(const tutti_region* region) { return region != nullptr ? static_cast<OwnRegion*>(region->handle) : nullptr; }

void say(char* why, std::size_t n, const std::string& text) {
  if (why != nullptr && n > 0) std::snprintf(why, n, "%s", text.c_str());
}

/// Does once what a link to a peer does, so that the limit which would keep that from opening is met now.
Status try_out() {
  const Result<EndpointAddress> identity = machine_identity();
  if (!identity.ok()) return identity.status();
  const std::uint64_t bytes = LinkLayout::of(link_slots, link_slot_bytes).total;
  const Result<UniqueFd> memory = create_memory("tutti-probe", bytes);
  if (!memory.ok()) return memory.status();
  if (Status few = check_descriptors_left(*memory, kLeastDescriptors); !few.ok()) return few;
  return map_memory(memory->get(), 0, bytes, true).status();
}

int viable(char* why, std::size_t n) {
  const Status tried = try_out();
  say(why, n,
      tried.ok() ? "ranks on this machine and in this network namespace share memory" : kCannotShare + tried.text());
  return tried.ok() ? 1 : 0;
}

tutti_status open(const tutti_endpoint_config* config, tutti_endpoint** endpoint, char* why, std::size_t n) {
  Result<std::unique_ptr<Endpoint>> opened = Endpoint::open(*config);
  if (!opened.ok()) {
    say(why, n, opened.status().text());
    return opened.status().code();
  }
  *endpoint = reinterpret_cast<tutti_endpoint*>(opened->release());
  return TUTTI_SUCCESS;
}

void close(tutti_endpoint* endpoint) { delete &of(endpoint); }

std::size_t describe(tutti_endpoint* endpoint, void* descriptor) {
  const EndpointAddress& address = of(endpoint).address();
  std::memcpy(descriptor, &address, sizeof address);
  return sizeof address;
}

int reach(tutti_endpoint* endpoint, int, const void* descriptor, std::size_t length, tutti_reach* reach, char* why,
          std::size_t n) {
  const Result<EndpointAddress> there = parse_address(descriptor, length);
  const std::string obstacle = there.ok() ? unreachable(of(endpoint).address(), *there) : there.status().text();
  if (!obstacle.empty()) {
    say(why, n, obstacle);
    return 0;
  }
  *reach = {sizeof *reach, kBandwidth, kLatency, TUTTI_CAN_OFFER_REGISTERED | TUTTI_CAN_GRANT_REGISTERED | TUTTI_READS_PEER,
            kPreference};
  say(why, n, "it shares this machine's memory");
  return 1;
}

tutti_link_result progress(tutti_endpoint* endpoint) {
  return of(endpoint).progress() ? TUTTI_LINK_OK : TUTTI_LINK_NOT_YET;
}

int event_fd(tutti_endpoint* endpoint) { return of(endpoint).event_fd(); }
void arm(tutti_endpoint* endpoint, int sleeping) { of(endpoint).arm(sleeping != 0); }

/// What both kinds of opening have in common: the peer, met and ready for a link.
Result<Peer*> prepare(Endpoint& endpoint, int rank, const void* descriptor, std::size_t length, std::uint32_t slots,
                      std::uint64_t slot_bytes, std::uint32_t channel, bool sends) {
  const Result<EndpointAddress> address = parse_address(descriptor, length);
  if (!address.ok()) return address.status();
  if (rank < 0 || rank >= endpoint.ranks()) {
    return Status(TUTTI_INVALID_ARGUMENT,
                  "there is no rank " + std::to_string(rank) + " among " + std::to_string(endpoint.ranks()) + " ranks");
  }
  if (!LinkLayout::sane(slots, slot_bytes)) {
    return Status(TUTTI_INVALID_ARGUMENT, "a link of " + std::to_string(slots) + " slots of " + std::to_string(slot_bytes) +
                                              " bytes is outside what shm can have");
  }
  if (const std::string obstacle = unreachable(endpoint.address(), *address); !obstacle.empty()) {
    return Status(TUTTI_UNSUPPORTED, obstacle);
  }
  Peer& peer = endpoint.peer(rank);
  peer.meet(*address);
  if (sends ? peer.has_sender(channel) : peer.has_receiver(channel)) {
    return Status(TUTTI_INVALID_USAGE, "that end of channel " + std::to_string(channel) + " is open already");
  }
  return &peer;
}

template <typename End>
tutti_status open_end(Endpoint& endpoint, const Result<Peer*>& peer, std::uint32_t channel, std::uint32_t slots,
                      std::uint64_t slot_bytes, tutti_link** link) {
  if (!peer.ok()) return endpoint.refuse(peer.status());
  auto end = std::make_unique<End>(endpoint, **peer, channel, slots, slot_bytes);
  if (const Status status = end->begin(); !status.ok()) return endpoint.refuse(status);
  *link = reinterpret_cast<tutti_link*>(static_cast<ShmLink*>(end.get()));
  endpoint.keep(std::move(end));
  return TUTTI_SUCCESS;
}

tutti_status open_sender(tutti_endpoint* endpoint, int rank, const void* descriptor, std::size_t length,
                         std::uint32_t channel, std::uint32_t slots, std::uint64_t slot_bytes, tutti_link** link) {
  const auto peer = prepare(of(endpoint), rank, descriptor, length, slots, slot_bytes, channel, true);
  return open_end<SenderLink>(of(endpoint), peer, channel, slots, slot_bytes, link);
}

tutti_status open_receiver(tutti_endpoint* endpoint, int rank, const void* descriptor, std::size_t length,
                           std::uint32_t channel, std::uint32_t slots, std::uint64_t slot_bytes, tutti_link** link) {
  const auto peer = prepare(of(endpoint), rank, descriptor, length, slots, slot_bytes, channel, false);
  return open_end<ReceiverLink>(of(endpoint), peer, channel, slots, slot_bytes, link);
}

void refusal(tutti_endpoint* endpoint, char* why, std::size_t n) { say(why, n, of(endpoint).refusal()); }

tutti_link_result link_state(tutti_link* link, tutti_link_state* state) { return of(link).state(state); }

tutti_link_result failure(tutti_link* link, char* why, std::size_t n) {
  if (of(link).stage() != ShmLink::Stage::kBroken) return TUTTI_LINK_OK;
  const std::string text = of(link).failure();
  if (text.empty()) return TUTTI_LINK_OK;
  say(why, n, text);
  return TUTTI_LINK_BROKEN;
}

tutti_quiesced close_link(tutti_link* link) {
  tutti_quiesced result = TUTTI_QUIESCED;
  try {
    result = of(link).give_up();
  } catch (const std::bad_alloc&) {
    // The peer is not told that this link is closed; why its owner closes links, it hears otherwise.
    result = of(link).withdraw();
  }
  of(link).endpoint().free(of(link));
  return result;
}

tutti_quiesced withdraw(tutti_link* link) { return of(link).withdraw(); }

void* reserve(tutti_link* link, std::uint64_t bytes, std::uint64_t fingerprint) {
  return sender(link).reserve(bytes, fingerprint);
}

int granted(tutti_link* link) { return sender(link).has_grant() ? 1 : 0; }
int streams(tutti_link* link, std::uint64_t bytes) { return sender(link).streams(bytes) ? 1 : 0; }

void step_aside(tutti_endpoint* endpoint, int aside) { of(endpoint).step_aside(aside != 0); }
int peer_is_aside(tutti_link* link) { return of(link).peer().is_aside() ? 1 : 0; }

tutti_link_result commit(tutti_link* link, std::uint64_t bytes, std::uint64_t fingerprint) {
  return sender(link).commit(bytes, fingerprint);
}

tutti_link_result send(tutti_link* link, const void* source, std::uint64_t bytes, std::uint64_t fingerprint) {
  return sender(link).send(source, bytes, fingerprint);
}

tutti_link_result offer(tutti_link* link, const tutti_region* region, const void* source, std::uint64_t bytes,
                        std::uint64_t fingerprint) {
  return sender(link).offer(of(region), source, bytes, fingerprint);
}

tutti_link_result flushed(tutti_link* link) { return of(link).peer().drained() ? TUTTI_LINK_OK : TUTTI_LINK_NOT_YET; }

tutti_link_result view(tutti_link* link, tutti_message* message) { return receiver(link).view(message); }
void release(tutti_link* link) { receiver(link).release(); }

tutti_link_result grant(tutti_link* link, const tutti_region* region, void* target, std::uint64_t bytes,
                        std::uint64_t fingerprint) {
  return receiver(link).grant(of(region), target, bytes, fingerprint);
}

tutti_status register_region(tutti_endpoint* endpoint, void* base, std::uint64_t bytes, int fd, std::uint64_t fd_offset,
                             tutti_region* region) {
  const Result<OwnRegion*> own = of(endpoint).register_region(base, bytes, fd, fd_offset);
  if (!own.ok()) return of(endpoint).refuse(own.status());
  *region = {sizeof *region, base, bytes, *own};
  return TUTTI_SUCCESS;
}

void unregister_region(tutti_endpoint* endpoint, tutti_region* region) {
  if (of(region) != nullptr) of(endpoint).unregister_region(*of(region));
  region->handle = nullptr;
}

constexpr tutti_transport kTransport = {
    sizeof(tutti_transport),
    TUTTI_TRANSPORT_ABI,
    "shm",
    viable,
    open,
    close,
    describe,
    reach,
    progress,
    event_fd,
    arm,
    open_sender,
    open_receiver,
    link_state,
    failure,
    close_link,
    reserve,
    commit,
    offer,
    flushed,
    view,
    release,
    grant,
    register_region,
    unregister_region,
    granted,
    withdraw,
    streams,
    step_aside,
    peer_is_aside,
    send,
    refusal,
};

}  // namespace

const tutti_transport* transport() { return &kTransport; }

}  // namespace tutti::shm
