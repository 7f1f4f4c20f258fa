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

void say(const std::string& text, char* why, std::size_t n) {
  if (why == nullptr || n == 0) return;
  const std::size_t length = std::min(n - 1, text.size());
  std::memcpy(why, text.data(), length);
  why[length] = '\0';
}

std::string unreadable(int peer) { return "rank " + std::to_string(peer) + " gave a descriptor that tcp cannot read"; }

std::optional<Card> card_of(const void* descriptor, std::size_t length) {
  return Card::unpack(std::span(static_cast<const std::byte*>(descriptor), length));
}

/// For each class of traffic's endpoint two, and for one peer a connection.
constexpr std::uint64_t kLeastDescriptors = 6;

/// Whether sockets can be had; OK: they can.
Status try_out() {
  const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) {
    const int number = errno;
    return system_error("socket", number, is_shortage(number) ? "" : "Allow sockets in the sandbox of this process");
  }
  return check_descriptors_left(socket, kLeastDescriptors);
}

int viable(char* why, std::size_t n) {
  if (const Status tried = try_out(); !tried) {
    say("this process cannot open sockets: " + tried.text(), why, n);
    return 0;
  }
  const auto addresses = local_addresses("");
  if (!addresses) {
    say(addresses.status().text(), why, n);
    return 0;
  }
  say("sockets work, at " + std::to_string(addresses->size()) + " addresses, the first on " + addresses->front().interface,
      why, n);
  return 1;
}

tutti_status open(const tutti_endpoint_config* config, tutti_endpoint** endpoint, char* why, std::size_t n) {
  if (config == nullptr || endpoint == nullptr || config->key == nullptr || config->rank < 0 ||
      config->rank >= config->ranks) {
    say("an endpoint needs a key and a rank below the number of ranks", why, n);
    return TUTTI_INVALID_ARGUMENT;
  }
  auto opened = Endpoint::open(*config);
  if (!opened) {
    say(opened.status().text(), why, n);
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
  say(sentence, why, n);
  if (reached) *reach = full;
  return reached ? 1 : 0;
}

tutti_link_result progress(tutti_endpoint* endpoint) {
  return of(endpoint)->progress() ? TUTTI_LINK_OK : TUTTI_LINK_NOT_YET;
}

int event_fd(tutti_endpoint* endpoint) { return of(endpoint)->event_fd(); }
void arm(tutti_endpoint* endpoint, int sleeping) { of(endpoint)->arm(sleeping != 0); }

tutti_status open_link(tutti_endpoint* endpoint, int peer, const void* descriptor, std::size_t length,
                       std::uint32_t channel, std::uint32_t slots, std::uint64_t slot_bytes, bool sends,
                       tutti_link** link) {
  const auto card = card_of(descriptor, length);
  constexpr std::uint32_t kMostSlots = 1u << 20;
  if (!card || link == nullptr) {
    return of(endpoint)->refuse(Status(TUTTI_INVALID_ARGUMENT, unreadable(peer)));
  }
  if (slots > kMostSlots || slot_bytes > tcp::kMaxMessage) {
    return of(endpoint)->refuse(Status(TUTTI_INVALID_ARGUMENT, "a link of " + std::to_string(slots) + " slots of " +
                                                                   std::to_string(slot_bytes) +
                                                                   " bytes is outside what tcp can have"));
  }
  const tcp::LinkShape shape{channel, tcp::window_for(slots), slot_bytes};
  const Result<TcpLink*> opened = of(endpoint)->open_link(peer, *card, shape, sends);
  if (!opened) return of(endpoint)->refuse(opened.status());
  *link = reinterpret_cast<tutti_link*>(*opened);
  return TUTTI_SUCCESS;
}

void refusal(tutti_endpoint* endpoint, char* why, std::size_t n) { say(of(endpoint)->refusal(), why, n); }

tutti_status open_sender(tutti_endpoint* endpoint, int peer, const void* descriptor, std::size_t length,
                         std::uint32_t channel, std::uint32_t slots, std::uint64_t slot_bytes, tutti_link** link) {
  return open_link(endpoint, peer, descriptor, length, channel, slots, slot_bytes, true, link);
}

tutti_status open_receiver(tutti_endpoint* endpoint, int peer, const void* descriptor, std::size_t length,
                           std::uint32_t channel, std::uint32_t slots, std::uint64_t slot_bytes, tutti_link** link) {
  return open_link(endpoint, peer, descriptor, length, channel, slots, slot_bytes, false, link);
}

tutti_link_result link_state(tutti_link* link, tutti_link_state* state) { return of(link)->state(state); }

tutti_link_result failure(tutti_link* link, char* why, std::size_t n) {
  const tutti_link_result result = of(link)->failure();
  if (result == TUTTI_LINK_BROKEN) say(of(link)->fault(), why, n);
  return result;
}

tutti_quiesced close_link(tutti_link* link) { return of(link)->peer().close_link(*of(link)); }

// An operation of the other direction's end finds a link that can never do it.

void* reserve(tutti_link* link, std::uint64_t bytes, std::uint64_t) {
  Sender* sender = sender_of(link);
  return sender != nullptr ? sender->reserve(bytes) : nullptr;
}

tutti_link_result commit(tutti_link* link, std::uint64_t bytes, std::uint64_t fingerprint) {
  Sender* sender = sender_of(link);
  return sender != nullptr ? sender->commit(bytes, fingerprint) : TUTTI_LINK_BROKEN;
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

tutti_transport make_table() {
  tutti_transport table{};
  table.size = sizeof table;
  table.abi = TUTTI_TRANSPORT_ABI;
  table.name = "tcp";
  table.viable = viable;
  table.open = open;
  table.close = close;
  table.describe = describe;
  table.reach = reach;
  table.progress = progress;
  table.event_fd = event_fd;
  table.arm = arm;
  table.open_sender = open_sender;
  table.open_receiver = open_receiver;
  table.link_state = link_state;
  table.failure = failure;
  table.close_link = close_link;
  table.reserve = reserve;
  table.commit = commit;
  table.offer = offer;
  table.flushed = flushed;
  table.view = view;
  table.release = release;
  table.grant = grant;
  table.refusal = refusal;
  return table;
}

}  // namespace

const tutti_transport& tcp_transport() {
  static const tutti_transport table = make_table();
  return table;
}

}  // namespace tutti
