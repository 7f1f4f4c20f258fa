#include "transports/shm/shm.h"

#include <cstring>
#include <memory>
#include <new>
#include <string>

#include "src/base/descriptor_limit.h"
#include "src/base/link_shape.h"
#include "src/base/memory_file.h"
#include "src/base/transport_helpers.h"
#include "transports/shm/endpoint.h"
#include "transports/shm/link.h"

// The C face. `tutti_endpoint` and `tutti_link` are never defined: their pointers are those of Endpoint and Link.
namespace tutti::shm {
namespace {

// Estimates for a pair that shares a cache or a memory controller; measured values replace them (tutti-perf).
constexpr double kBandwidth = 10e9;
constexpr double kLatency = 250e-9;
constexpr std::uint32_t kPreference = 100;
/// Five for each class of traffic's endpoint, and for one peer its socket, its connector's, its doorbell and two on their
/// way.
constexpr std::uint64_t kLeastDescriptors = 15;

Endpoint& of(tutti_endpoint* endpoint) { return *reinterpret_cast<Endpoint*>(endpoint); }
ShmLink& of(tutti_link* link) { return *reinterpret_cast<ShmLink*>(link); }
SenderLink& sender(tutti_link* link) { return static_cast<SenderLink&>(of(link)); }
ReceiverLink& receiver(tutti_link* link) { return static_cast<ReceiverLink&>(of(link)); }
OwnRegion* of(const tutti_region* region) { return region != nullptr ? static_cast<OwnRegion*>(region->handle) : nullptr; }

/// Does once what a link to a peer does, so that the limit which would keep that from opening is met now.
Status try_out() {
  const Result<near::LocalAddress> identity = near::new_local_address(kService, 0);
  if (!identity.ok()) return identity.status();
  const std::uint64_t bytes = LinkLayout::of(link_slots, link_slot_bytes).total;
  const Result<UniqueFd> memory = create_memory("tutti-probe", bytes);
  if (!memory.ok()) return memory.status();
  if (Status few = check_descriptors_left(*memory, kLeastDescriptors); !few.ok()) return few;
  return map_memory(memory->get(), 0, bytes, true).status();
}

int viable(char* why, std::size_t n) {
  const Status tried = try_out();
  write_why(why, n,
            tried.ok() ? "ranks on this machine and in this network namespace share memory" : kCannotShare + tried.text());
  return tried.ok() ? 1 : 0;
}

tutti_status open(const tutti_endpoint_config* config, tutti_endpoint** endpoint, char* why, std::size_t n) {
  Result<std::unique_ptr<Endpoint>> opened = Endpoint::open(*config);
  if (!opened.ok()) {
    write_why(why, n, opened.status().text());
    return opened.status().code();
  }
  *endpoint = reinterpret_cast<tutti_endpoint*>(opened->release());
  return TUTTI_SUCCESS;
}

void close(tutti_endpoint* endpoint) { delete &of(endpoint); }

std::size_t describe(tutti_endpoint* endpoint, void* descriptor) {
  const near::LocalAddress& address = of(endpoint).address();
  std::memcpy(descriptor, &address, sizeof address);
  return sizeof address;
}

int reach(tutti_endpoint* endpoint, int, const void* descriptor, std::size_t length, tutti_reach* reach, char* why,
          std::size_t n) {
  const Result<near::LocalAddress> there = near::parse_local_address(kService, descriptor, length);
  const std::string obstacle = there.ok() ? near::unreachable(of(endpoint).address(), *there) : there.status().text();
  if (!obstacle.empty()) {
    write_why(why, n, obstacle);
    return 0;
  }
  *reach = {sizeof *reach, kBandwidth, kLatency,
            TUTTI_CAN_OFFER_REGISTERED | TUTTI_CAN_GRANT_REGISTERED | TUTTI_READS_PEER | TUTTI_WRITES_PEER, kPreference};
  write_why(why, n, "it shares this machine's memory");
  return 1;
}

tutti_link_result progress(tutti_endpoint* endpoint) {
  return of(endpoint).progress() ? TUTTI_LINK_OK : TUTTI_LINK_NOT_YET;
}

int event_fd(tutti_endpoint* endpoint) { return of(endpoint).event_fd(); }
void arm(tutti_endpoint* endpoint, int sleeping) { of(endpoint).arm(sleeping != 0); }

/// The peer of a link that is to be opened, met and ready for it.
Result<Peer*> prepare(Endpoint& endpoint, const tutti_link_params& params) {
  const Result<near::LocalAddress> address =
      near::parse_local_address(kService, params.descriptor, params.descriptor_length);
  if (!address.ok()) return address.status();
  if (params.peer < 0 || params.peer >= endpoint.ranks()) {
    return Status(TUTTI_INVALID_ARGUMENT, "there is no rank " + std::to_string(params.peer) + " among " +
                                              std::to_string(endpoint.ranks()) + " ranks");
  }
  if (!LinkLayout::sane(params.slots, params.slot_bytes)) {
    return Status(TUTTI_INVALID_ARGUMENT, "a link of " + std::to_string(params.slots) + " slots of " +
                                              std::to_string(params.slot_bytes) + " bytes is outside what shm can have");
  }
  if (const std::string obstacle = near::unreachable(endpoint.address(), *address); !obstacle.empty()) {
    return Status(TUTTI_UNSUPPORTED, obstacle);
  }
  Peer& peer = endpoint.peer(params.peer);
  peer.meet(*address);
  const bool sends = params.direction == TUTTI_LINK_SENDS;
  if (sends ? peer.has_sender(params.channel) : peer.has_receiver(params.channel)) {
    return Status(TUTTI_INVALID_USAGE, "that end of channel " + std::to_string(params.channel) + " is open already");
  }
  return &peer;
}

template <typename End>
Result<ShmLink*> open_end(Endpoint& endpoint, const tutti_link_params& params) {
  const Result<Peer*> peer = prepare(endpoint, params);
  if (!peer.ok()) return peer.status();
  auto end = std::make_unique<End>(endpoint, **peer, params.channel, params.slots, params.slot_bytes);
  if (Status status = end->begin(); !status.ok()) return status;
  ShmLink* const link = end.get();
  endpoint.keep(std::move(end));
  return link;
}

/// Says why; returns the status's code. What the system refuses this process lacks.
tutti_status refuse(const Status& status, char* why, std::size_t n) {
  write_why(why, n, (status.error().system_error != 0 ? kCannotShare : "") + status.text());
  return status.code();
}

tutti_status open_link(tutti_endpoint* endpoint, const tutti_link_params* params, tutti_link** link, char* why,
                       std::size_t n) {
  const Result<ShmLink*> opened = params->direction == TUTTI_LINK_SENDS ? open_end<SenderLink>(of(endpoint), *params)
                                                                        : open_end<ReceiverLink>(of(endpoint), *params);
  if (!opened.ok()) return refuse(opened.status(), why, n);
  *link = reinterpret_cast<tutti_link*>(*opened);
  return TUTTI_SUCCESS;
}

void properties(tutti_endpoint* endpoint, tutti_endpoint_properties* properties) {
  properties->pci_address[0] = '\0';
  properties->numa_node = -1;
  properties->bandwidth = 0;
  properties->memory_kinds = 1u << TUTTI_MEMORY_HOST;
  properties->yielding = &of(endpoint).page()->yielding;
}

tutti_link_result link_state(tutti_link* link, tutti_link_state* state) { return of(link).state(state); }

tutti_link_result failure(tutti_link* link, char* why, std::size_t n) {
  if (of(link).stage() != ShmLink::Stage::kBroken) return TUTTI_LINK_OK;
  const std::string text = of(link).failure();
  if (text.empty()) return TUTTI_LINK_OK;
  write_why(why, n, text);
  return TUTTI_LINK_BROKEN;
}

tutti_quiesced quiesce(tutti_link* link) { return of(link).quiesce(); }

void close_link(tutti_link* link) {
  try {
    of(link).give_up();
  } catch (const std::bad_alloc&) {
    // The peer is not told that this link is closed; why its owner closes links, it hears otherwise.
  }
  of(link).endpoint().free(of(link));
}

void link_stats(tutti_link* link, tutti_link_stats* stats) { of(link).count(*stats); }

tutti_link_result reserve(tutti_link* link, std::uint64_t bytes, std::uint64_t fingerprint, tutti_room* room) {
  return sender(link).reserve(bytes, fingerprint, *room);
}

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

tutti_link_result flushed(tutti_link* link) { return of(link).peer().owes() ? TUTTI_LINK_NOT_YET : TUTTI_LINK_OK; }

tutti_link_result view(tutti_link* link, tutti_message* message) { return receiver(link).view(message); }
void release(tutti_link* link) { receiver(link).release(); }

tutti_link_result grant(tutti_link* link, const tutti_region* region, void* target, std::uint64_t bytes,
                        std::uint64_t fingerprint) {
  return receiver(link).grant(of(region), target, bytes, fingerprint);
}

tutti_link_result revalidate(tutti_link* link) { return receiver(link).revalidate(); }

tutti_status register_memory(tutti_endpoint* endpoint, const tutti_memory* memory, tutti_region* region, char* why,
                             std::size_t n) {
  const Result<OwnRegion*> own = of(endpoint).register_memory(*memory);
  if (!own.ok()) return refuse(own.status(), why, n);
  *region = {sizeof *region, memory->base, memory->bytes, *own};
  return TUTTI_SUCCESS;
}

void unregister_memory(tutti_endpoint* endpoint, tutti_region* region) {
  if (of(region) != nullptr) of(endpoint).unregister_memory(*of(region));
  region->handle = nullptr;
}

constexpr tutti_transport kTransport = {
    .size = sizeof(tutti_transport),
    .abi = TUTTI_TRANSPORT_ABI,
    .name = "shm",
    .viable = viable,
    .open = open,
    .close = close,
    .properties = properties,
    .describe = describe,
    .reach = reach,
    .probe = nullptr,
    .explain = nullptr,
    .progress = progress,
    .event_fd = event_fd,
    .arm = arm,
    .open_link = open_link,
    .link_state = link_state,
    .failure = failure,
    .quiesce = quiesce,
    .close_link = close_link,
    .link_stats = link_stats,
    .reserve = reserve,
    .commit = commit,
    .send = send,
    .offer = offer,
    .flushed = flushed,
    .view = view,
    .revalidate = revalidate,
    .release = release,
    .grant = grant,
    .register_memory = register_memory,
    .unregister_memory = unregister_memory,
    .flush = nullptr,
    .device_link = nullptr,
};

}  // namespace

const tutti_transport* transport() { return &kTransport; }

}  // namespace tutti::shm
