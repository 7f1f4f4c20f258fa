#include "transports/tcp/tcp.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "src/base/descriptor_limit.h"
#include "src/base/transport_helpers.h"
#include "transports/tcp/card.h"
#include "transports/tcp/endpoint.h"
#include "transports/tcp/link.h"

namespace tutti {

namespace {

using tcp::Card;
using tcp::Endpoint;
using tcp::Receiver;
using tcp::Sender;
using tcp::TcpLink;

// The handles are the objects: the interface leaves both types to the transport, and other transports in this library
// have their own, so they are never completed here.
Endpoint* of(tutti_endpoint* endpoint) { return reinterpret_cast<Endpoint*>(endpoint); }
TcpLink* of(tutti_link* link) { return reinterpret_cast<TcpLink*>(link); }
Sender* sender_of(tutti_link* link) { return of(link)->sends() ? static_cast<Sender*>(of(link)) : nullptr; }
Receiver* receiver_of(tutti_link* link) { return of(link)->sends() ? nullptr : static_cast<Receiver*>(of(link)); }

std::string unreadable(int peer) { return "rank " + std::to_string(peer) + " gave a descriptor that tcp cannot read"; }

std::optional<Card> card_of(const void* descriptor, std::size_t length) {
  return Card::unpack(std::span(static_cast<const std::byte*>(descriptor), length));
}

/// For each class of traffic's endpoint three, and for two peers there a connection and its connector's; for the
/// control plane four.
constexpr std::uint64_t kLeastDescriptors = 18;

/// Whether sockets can be had; OK: they can.
Status try_out() {
  UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  int number = errno;
  if (!socket && number == EAFNOSUPPORT) {  // a machine without IPv4
    socket = UniqueFd(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
    number = errno;
  }
  if (!socket) {
    return system_error("socket", number, is_shortage(number) ? "" : "Allow sockets in the sandbox of this process");
  }
  return check_descriptors_left(socket, kLeastDescriptors);
}

int viable(char* why, std::size_t n) {
  if (const Status tried = try_out(); !tried) {
    write_why(why, n, "this process cannot open sockets: " + tried.text());
    return 0;
  }
  const auto addresses = local_addresses("");
  if (!addresses) {
    write_why(why, n, addresses.status().text());
    return 0;
  }
  write_why(
      why, n,
      "sockets work, at " + std::to_string(addresses->size()) + " addresses, the first on " + addresses->front().interface);
  return 1;
}

tutti_status open(const tutti_endpoint_config* config, tutti_endpoint** endpoint, char* why, std::size_t n) {
  if (config == nullptr || endpoint == nullptr || config->key == nullptr || config->rank < 0 ||
      config->rank >= config->ranks) {
    write_why(why, n, "an endpoint needs a key and a rank below the number of ranks");
    return TUTTI_INVALID_ARGUMENT;
  }
  auto opened = Endpoint::open(*config);
  if (!opened) {
    write_why(why, n, opened.status().text());
    return opened.status().code();
  }
  *endpoint = reinterpret_cast<tutti_endpoint*>(opened->release());
  return TUTTI_SUCCESS;
}

void close(tutti_endpoint* endpoint) { delete of(endpoint); }

std::size_t describe(tutti_endpoint* endpoint, void* descriptor) {
  const auto bytes = of(endpoint)->card().pack();
  std::memcpy(descriptor, bytes.data(), bytes.size());
  return bytes.size();
}

int reach(tutti_endpoint* endpoint, int peer, const void* descriptor, std::size_t length, tutti_reach* reach, char* why,
          std::size_t n) {
  const auto card = card_of(descriptor, length);
  std::string sentence = unreadable(peer);
  tutti_reach full{};
  full.size = sizeof full;
  const bool reached = card && of(endpoint)->reach(peer, *card, &full, &sentence);
  write_why(why, n, sentence);
  if (reached) *reach = full;
  return reached ? 1 : 0;
}

tutti_link_result progress(tutti_endpoint* endpoint) {
  return of(endpoint)->progress() ? TUTTI_LINK_OK : TUTTI_LINK_NOT_YET;
}

int event_fd(tutti_endpoint* endpoint) { return of(endpoint)->event_fd(); }
void arm(tutti_endpoint* endpoint, int sleeping) { of(endpoint)->arm(sleeping != 0); }

/// Why nothing can be opened with those parameters; OK: something can.
Status check(const tutti_link_params& params) {
  constexpr std::uint32_t kMostSlots = 1u << 20;
  if (params.slots <= kMostSlots && params.slot_bytes <= tcp::kMaxMessage) return {};
  return Status(TUTTI_INVALID_ARGUMENT, "a link of " + std::to_string(params.slots) + " slots of " +
                                            std::to_string(params.slot_bytes) + " bytes is outside what tcp can have");
}

Result<TcpLink*> open_end(Endpoint& endpoint, const tutti_link_params& params) {
  const auto card = card_of(params.descriptor, params.descriptor_length);
  if (!card) return Status(TUTTI_INVALID_ARGUMENT, unreadable(params.peer));
  if (Status status = check(params); !status.ok()) return status;
  const tcp::LinkShape shape{params.channel, tcp::window_for(params.slots), params.slot_bytes};
  return endpoint.open_link(params.peer, *card, shape, params.direction == TUTTI_LINK_SENDS);
}

tutti_status open_link(tutti_endpoint* endpoint, const tutti_link_params* params, tutti_link** link, char* why,
                       std::size_t n) {
  const Result<TcpLink*> opened = open_end(*of(endpoint), *params);
  if (!opened.ok()) {
    write_why(why, n, opened.status().text());
    return opened.status().code();
  }
  *link = reinterpret_cast<tutti_link*>(*opened);
  return TUTTI_SUCCESS;
}

void properties(tutti_endpoint* endpoint, tutti_endpoint_properties* properties) {
  properties->pci_address[0] = '\0';
  properties->numa_node = -1;
  properties->bandwidth = of(endpoint)->card().megabits * 1e6 / 8;
  properties->memory_kinds = 0;
  properties->yielding = nullptr;
}

tutti_link_result link_state(tutti_link* link, tutti_link_state* state) { return of(link)->state(state); }

tutti_link_result failure(tutti_link* link, char* why, std::size_t n) {
  const tutti_link_result result = of(link)->failure();
  if (result == TUTTI_LINK_BROKEN) write_why(why, n, of(link)->fault());
  return result;
}

tutti_quiesced quiesce(tutti_link* link) { return of(link)->peer().quiesce(*of(link)); }
void close_link(tutti_link* link) { of(link)->peer().close_link(*of(link)); }
void link_stats(tutti_link* link, tutti_link_stats* stats) { of(link)->count(*stats); }

// An operation of the other direction's end finds a link that can never do it.

tutti_link_result reserve(tutti_link* link, std::uint64_t bytes, std::uint64_t, tutti_room* room) {
  Sender* sender = sender_of(link);
  return sender != nullptr ? sender->reserve(bytes, *room) : TUTTI_LINK_BROKEN;
}

tutti_link_result commit(tutti_link* link, std::uint64_t bytes, std::uint64_t fingerprint) {
  Sender* sender = sender_of(link);
  return sender != nullptr ? sender->commit(bytes, fingerprint) : TUTTI_LINK_BROKEN;
}

tutti_link_result send(tutti_link* link, const void* source, std::uint64_t bytes, std::uint64_t fingerprint) {
  return tutti_send_in_parts(reserve, commit, link, source, bytes, fingerprint);
}

tutti_link_result offer(tutti_link* link, const tutti_region*, const void* source, std::uint64_t bytes,
                        std::uint64_t fingerprint) {
  Sender* sender = sender_of(link);
  return sender != nullptr ? sender->offer(source, bytes, fingerprint) : TUTTI_LINK_BROKEN;
}

tutti_link_result flushed(tutti_link* link) { return of(link)->flushed(); }

tutti_link_result view(tutti_link* link, tutti_message* message) {
  Receiver* receiver = receiver_of(link);
  return receiver != nullptr ? receiver->view(message) : TUTTI_LINK_BROKEN;
}

void release(tutti_link* link) {
  if (Receiver* receiver = receiver_of(link)) receiver->release();
}

tutti_link_result grant(tutti_link* link, const tutti_region*, void* target, std::uint64_t bytes,
                        std::uint64_t fingerprint) {
  Receiver* receiver = receiver_of(link);
  return receiver != nullptr ? receiver->grant(target, bytes, fingerprint) : TUTTI_LINK_BROKEN;
}

constexpr tutti_transport kTransport = {
    .size = sizeof(tutti_transport),
    .abi = TUTTI_TRANSPORT_ABI,
    .name = "tcp",
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
    .revalidate = nullptr,
    .release = release,
    .grant = grant,
    .register_memory = nullptr,
    .unregister_memory = nullptr,
    .flush = nullptr,
    .device_link = nullptr,
};

}  // namespace

const tutti_transport& tcp_transport() { return kTransport; }

}  // namespace tutti
