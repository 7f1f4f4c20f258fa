// A transport from outside, whole: ranks that are threads of one process hand messages over through queues in its memory.
// It shows what a plugin must do, not how to be fast. Build it as a shared object that links nothing of Tutti, check it
// with `tutti-conformance libtutti_queue.so`, and name its folder in TUTTI_PLUGIN_PATH.
//
//     Channel   one direction between two endpoints: a queue under a lock, and who has opened and closed it
//     Endpoint  an address (a number), the key, the links
//     Link      one end of a channel
//
// The registry below stands for the wire: it connects those, and only those, who name each other and hold the same key.
#include <tutti/transport.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

namespace {

struct alignas(64) Line {
  unsigned char bytes[64];
};
struct Message {
  std::vector<Line> data;
  std::uint64_t bytes = 0, fingerprint = 0;
};
enum class End { kAbsent, kOpen, kClosed };

struct Channel {
  std::mutex lock;
  std::deque<Message> queue;  // what is not released yet; the front is what the receiver views
  End sender = End::kAbsent, receiver = End::kAbsent;
  alignas(8) std::uint64_t arrived = 0, released = 0;  // written under the lock, polled without it
};

/// What everybody hands around: an endpoint's address.
struct Card {
  char magic[8] = {'q', 'u', 'e', 'u', 'e', ' ', '0', '1'};
  std::uint64_t number = 0;
  std::int64_t pid = 0;
};
using ChannelName = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, std::string>;  // from, to, channel, key

struct Registry {
  std::mutex lock;
  std::uint64_t numbers = 0;
  std::map<std::uint64_t, std::string> endpoints;  // their keys
  std::map<ChannelName, std::shared_ptr<Channel>> channels;
};
Registry& registry() {
  static Registry one;
  return one;
}

struct Endpoint;
struct Link {
  Endpoint* endpoint;
  std::shared_ptr<Channel> channel;
  ChannelName name;
  std::uint64_t peer_number;
  int peer;
  bool sends;
  std::uint32_t slots;
  std::uint64_t slot_bytes, sent = 0;
  std::chrono::steady_clock::time_point deadline;
  std::vector<Line> room;  // what is reserved
  std::string why;         // not empty: it does not open any more
};
struct Endpoint {
  Card card;
  std::string key;
  std::chrono::nanoseconds patience;
  std::list<Link> links;
};

Endpoint& of(tutti_endpoint* e) { return *reinterpret_cast<Endpoint*>(e); }
Link& of(tutti_link* l) { return *reinterpret_cast<Link*>(l); }
void say(char* why, std::size_t n, const std::string& text) {
  if (why != nullptr && n > 0) std::snprintf(why, n, "%s", text.c_str());
}

int viable(char* why, std::size_t n) {
  say(why, n, "ranks that are threads of one process can always use queues");
  return 1;
}

tutti_status open(const tutti_endpoint_config* config, tutti_endpoint** endpoint, char*, std::size_t) {
  auto* const e = new Endpoint;
  e->key.assign(reinterpret_cast<const char*>(config->key), 32);
  e->key += std::to_string(config->endpoint_class);
  e->patience = std::chrono::nanoseconds(config->connect_timeout_ns);
  e->card.pid = getpid();
  const std::lock_guard hold(registry().lock);
  e->card.number = ++registry().numbers;
  registry().endpoints[e->card.number] = e->key;
  *endpoint = reinterpret_cast<tutti_endpoint*>(e);
  return TUTTI_SUCCESS;
}

// Whoever is to write this process's memory does so under a lock, in calls of its own: nothing has to be taken back.
tutti_quiesced quiesce(tutti_link*) { return TUTTI_QUIESCED; }

void close_link(tutti_link* handle) {
  Link& link = of(handle);
  Endpoint& endpoint = *link.endpoint;
  {
    const std::lock_guard hold(registry().lock);
    const std::lock_guard held(link.channel->lock);
    (link.sends ? link.channel->sender : link.channel->receiver) = End::kClosed;
    const End other = link.sends ? link.channel->receiver : link.channel->sender;
    if (other != End::kOpen) registry().channels.erase(link.name);
  }
  endpoint.links.remove_if([&](const Link& l) { return &l == &link; });
}

void close(tutti_endpoint* handle) {
  Endpoint& e = of(handle);
  while (!e.links.empty()) close_link(reinterpret_cast<tutti_link*>(&e.links.front()));
  const std::lock_guard hold(registry().lock);
  registry().endpoints.erase(e.card.number);
  delete &e;
}

std::size_t describe(tutti_endpoint* e, void* descriptor) {
  std::memcpy(descriptor, &of(e).card, sizeof(Card));
  return sizeof(Card);
}

bool parse(const void* descriptor, std::size_t length, Card& card) {
  const Card ours;
  if (length != sizeof card) return false;
  std::memcpy(&card, descriptor, sizeof card);
  return std::memcmp(card.magic, ours.magic, sizeof ours.magic) == 0;
}

int reach(tutti_endpoint*, int, const void* descriptor, std::size_t length, tutti_reach* reach, char* why, std::size_t n) {
  Card card;
  const bool ours = parse(descriptor, length, card);
  if (!ours || card.pid != getpid()) {
    say(why, n, ours ? "it is another process" : "the descriptor is not one of the queue transport");
    return 0;
  }
  *reach = {sizeof *reach, 1e9, 1e-6, 0, 1};
  return 1;
}

tutti_link_result progress(tutti_endpoint*) { return TUTTI_LINK_NOT_YET; }  // queues move by themselves
int event_fd(tutti_endpoint*) { return -1; }
void arm(tutti_endpoint*, int) {}

void properties(tutti_endpoint*, tutti_endpoint_properties* properties) {
  *properties = {};
  properties->size = sizeof *properties;
  properties->numa_node = -1;
}

tutti_status open_link(tutti_endpoint* handle, const tutti_link_params* params, tutti_link** link, char* why, size_t n) {
  Endpoint& e = of(handle);
  Card there;
  if (!parse(params->descriptor, params->descriptor_length, there)) {
    say(why, n, "the descriptor is not one of the queue transport");
    return TUTTI_INVALID_ARGUMENT;
  }
  const bool sends = params->direction == TUTTI_LINK_SENDS;
  const std::uint64_t from = sends ? e.card.number : there.number;
  const std::uint64_t to = sends ? there.number : e.card.number;
  const ChannelName name{from, to, params->channel, e.key};
  const std::lock_guard hold(registry().lock);
  std::shared_ptr<Channel>& slot = registry().channels[name];
  if (!slot) slot = std::make_shared<Channel>();
  const std::lock_guard held(slot->lock);
  End& mine = sends ? slot->sender : slot->receiver;
  if (mine != End::kAbsent) {
    say(why, n, "that end of the channel is open already");
    return TUTTI_INVALID_USAGE;
  }
  mine = End::kOpen;
  const auto deadline = std::chrono::steady_clock::now() + e.patience;
  e.links.push_back(
      {&e, slot, name, there.number, params->peer, sends, params->slots, params->slot_bytes, 0, deadline, {}, {}});
  *link = reinterpret_cast<tutti_link*>(&e.links.back());
  return TUTTI_SUCCESS;
}

/// Why nothing can come of the link any more; empty while something can.
std::string trouble(Link& link) {
  const std::string who = "rank " + std::to_string(link.peer);
  End other;
  {
    const std::lock_guard held(link.channel->lock);
    other = link.sends ? link.channel->receiver : link.channel->sender;
    if (!link.sends && !link.channel->queue.empty()) return {};
  }
  if (other == End::kOpen) return {};
  if (other == End::kClosed) return who + " has closed its end of the queue";
  const std::lock_guard hold(registry().lock);
  const auto found = registry().endpoints.find(link.peer_number);
  if (found == registry().endpoints.end()) return who + " has closed its endpoint of the queue transport";
  // A peer with our key is there, and may be late with its end. Another's was asked for long enough.
  const bool reached = found->second == link.endpoint->key;
  if (!reached && std::chrono::steady_clock::now() > link.deadline) link.why = who + " has another key";
  return link.why;
}

bool is_open(Link& link) {
  const std::lock_guard held(link.channel->lock);
  return link.channel->sender != End::kAbsent && link.channel->receiver != End::kAbsent;
}

tutti_link_result link_state(tutti_link* handle, tutti_link_state* state) {
  Link& link = of(handle);
  if (!trouble(link).empty()) return TUTTI_LINK_BROKEN;
  if (!is_open(link)) return TUTTI_LINK_NOT_YET;
  const auto* const arrived = reinterpret_cast<const unsigned char*>(&link.channel->arrived);
  *state = {sizeof *state, 0, link.slots, link.slot_bytes, arrived, &link.channel->released, nullptr};
  return TUTTI_LINK_OK;
}

tutti_link_result failure(tutti_link* link, char* why, std::size_t n) {
  const std::string text = trouble(of(link));
  if (text.empty()) return TUTTI_LINK_OK;
  say(why, n, text);
  return TUTTI_LINK_BROKEN;
}

tutti_link_result reserve(tutti_link* handle, std::uint64_t bytes, std::uint64_t, tutti_room* room) {
  Link& link = of(handle);
  if (!is_open(link) || bytes > link.slot_bytes) return TUTTI_LINK_NOT_YET;
  {
    const std::lock_guard held(link.channel->lock);
    if (link.channel->receiver == End::kClosed) return TUTTI_LINK_BROKEN;
    if (link.channel->queue.size() >= link.slots) return TUTTI_LINK_NOT_YET;
  }
  if (link.room.empty() || link.room.size() * sizeof(Line) < bytes) link.room.resize(bytes / sizeof(Line) + 1);
  *room = {link.room.data(), 0};
  return TUTTI_LINK_OK;
}

tutti_link_result commit(tutti_link* handle, std::uint64_t bytes, std::uint64_t fingerprint) {
  Link& link = of(handle);
  const std::lock_guard held(link.channel->lock);
  if (link.channel->receiver == End::kClosed) return TUTTI_LINK_BROKEN;
  link.channel->queue.push_back({std::move(link.room), bytes, fingerprint});
  link.room = {};
  // Release: whoever acquires the count may find the message; it takes the lock for the message itself.
  std::atomic_ref(link.channel->arrived).store(++link.sent, std::memory_order_release);
  return TUTTI_LINK_OK;
}

tutti_link_result send(tutti_link* link, const void* source, std::uint64_t bytes, std::uint64_t fingerprint) {
  return tutti_send_in_parts(reserve, commit, link, source, bytes, fingerprint);
}

tutti_link_result flushed(tutti_link*) { return TUTTI_LINK_OK; }

tutti_link_result view(tutti_link* handle, tutti_message* message) {
  Link& link = of(handle);
  {
    const std::lock_guard held(link.channel->lock);
    if (!link.channel->queue.empty()) {
      const Message& front = link.channel->queue.front();
      *message = {front.data.data(), front.bytes, front.fingerprint};
      return TUTTI_LINK_OK;
    }
  }
  return trouble(link).empty() ? TUTTI_LINK_NOT_YET : TUTTI_LINK_BROKEN;
}

void release(tutti_link* handle) {
  Channel& channel = *of(handle).channel;
  const std::lock_guard held(channel.lock);
  channel.queue.pop_front();
  // Release: our reads of the message come before the sender may count on its end. Written under the lock only.
  std::atomic_ref(channel.released).store(channel.released + 1, std::memory_order_release);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const tutti_transport TUTTI_TRANSPORT_PLUGIN = {
    .size = sizeof(tutti_transport),
    .abi = TUTTI_TRANSPORT_ABI,
    .name = "queue",
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
    .link_stats = nullptr,
    .reserve = reserve,
    .commit = commit,
    .send = send,
    .offer = nullptr,
    .flushed = flushed,
    .view = view,
    .revalidate = nullptr,
    .release = release,
    .grant = nullptr,
    .register_memory = nullptr,
    .unregister_memory = nullptr,
    .flush = nullptr,
    .device_link = nullptr,
};
