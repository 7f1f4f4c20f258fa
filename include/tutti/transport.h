// The one transport interface: what the library's own transports implement, and outsiders' plugins too.
//
// A plugin is a shared object in TUTTI_PLUGIN_PATH that exports one symbol, TUTTI_TRANSPORT_PLUGIN, of type
// tutti_transport. The symbol's name carries the interface's number, so that one shared object may serve several libraries.
// A plugin of another number is refused with a sentence. The table and all structs change with that number only.
// Whoever fills a struct that starts with its size sets that. Operations are mandatory unless their comment says what NULL
// means.
//
// Objects. An *endpoint* is one rank's end of one transport, for one class of traffic, of a communicator and all that are
// split off from it. A *link* is one ordered direction between two ranks, named by (peer, channel). Its messages arrive in
// the order they were sent. Nothing is put on a wire without room at its end, so no message blocks another link's. Both
// sides open a link, each when it first needs it. A *region* is memory that was registered with an endpoint.
//
// Many communicators. Each has channels of its own, from a random number on. Links come and go with them while their
// endpoint stays, thousands at a time. So what is found by channel is found quickly, and nothing is left at either end of a
// link that both have closed.
//
// Threads. One thread at a time uses an endpoint and its links; that may be another one each time, as the caller sees to.
// Different endpoints are independent. Nothing here blocks but `close`, which is bounded. What cannot be done now answers
// "not yet". The caller then waits with a deadline of its own, and calls `progress`.
//
// Sleep. Several threads may wait for one endpoint's `event_fd` at once, each for links of its own. `arm` stays in force
// while any of them does, and is asked again for each.
//
// Messages. A message travels by slot, by pull or by put; the pair of links decides for each. By slot it is at most
// `slot_bytes` long, as agreed when the link was opened. By pull the receiver reads memory that the sender offered, of any
// length. By put the bytes land in memory that the receiver granted.
//
// Completion. Two counts of messages are 64-bit words, which the agent polls with acquire loads. The agent is the thread
// that runs the rank's operations. They advance only when the data is visible to it. `arrived` counts at the receiver. It
// may be another word for each message. `reusable` counts at the sender: the source of an offer may be overwritten. The
// caller may reuse a slot's source at once.
//
// Reasons. A function with a `why` writes a sentence there of at most n bytes, the terminating 0 included. TUTTI_WHY_MAX
// are enough. Where something can be done about it, a full stop and that remedy follow. A sentence that begins "this
// process " says that this process lacks something. Such a limit is no fault of a peer's, and users are warned of it.
// `why` may be NULL with n = 0.
#ifndef TUTTI_TRANSPORT_H_
#define TUTTI_TRANSPORT_H_

#include <string.h>

#include "tutti.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Goes up where the table of operations, a struct or a contract changes.
#define TUTTI_TRANSPORT_ABI 4
/// The symbol that a plugin exports, and its name as text.
#define TUTTI_TRANSPORT_PLUGIN tutti_transport_plugin_v4
#define TUTTI_TRANSPORT_SYMBOL "tutti_transport_plugin_v4"
/// Longest descriptor that `describe` may give, in bytes.
#define TUTTI_DESCRIPTOR_MAX 2048
/// Bytes that hold any `why` or text.
#define TUTTI_WHY_MAX 1024

typedef struct tutti_endpoint tutti_endpoint;  ///< defined by the transport
typedef struct tutti_link tutti_link;          ///< defined by the transport

/// What an operation of a link came to.
typedef enum tutti_link_result {
  TUTTI_LINK_OK = 0,
  TUTTI_LINK_NOT_YET = 1,  ///< no credit, no message, not open yet: progress and try again
  TUTTI_LINK_BROKEN = 2,   ///< the peer died or closed, or the system failed: see `failure`
  TUTTI_LINK_RESULT_LIMIT = 0x7fffffff,
} tutti_link_result;

/// What a pair of links can do beyond slots; flags of tutti_reach.capabilities and of tutti_link_state.
enum {
  TUTTI_CAN_OFFER_ANY = 1,         ///< any host memory may be offered
  TUTTI_CAN_OFFER_REGISTERED = 2,  ///< host memory of a region of this endpoint may be offered
  TUTTI_CAN_GRANT_ANY = 4,         ///< any host memory may be granted
  TUTTI_CAN_GRANT_REGISTERED = 8,  ///< host memory of a region of this endpoint may be granted
  TUTTI_READS_PEER = 16,           ///< `view` shows the sender's own memory: a source operand may be the peer's memory
  /// The words advance only while `progress` is called. Memory that no region holds (…_ANY) moves only within that, too.
  TUTTI_NEEDS_PROGRESS = 32,
  TUTTI_DEVICE_LINK = 64,        ///< `device_link` gives state that a kernel can use
  TUTTI_CAN_OFFER_DEVICE = 128,  ///< device memory of a region of this endpoint may be offered
  TUTTI_CAN_GRANT_DEVICE = 256,  ///< device memory of a region of this endpoint may be granted
  TUTTI_WRITES_PEER = 512,       ///< `reserve` may give the receiver's granted memory: a result may go straight there
};

/// What an endpoint is for; values from 3 on are for later kinds of traffic.
enum {
  TUTTI_CLASS_COLLECTIVE = 0,
  TUTTI_CLASS_POINT_TO_POINT = 1,
  TUTTI_CLASS_DEVICE = 2,  ///< collectives on device memory
};

/// How a peer can be reached: data, so that the choice between transports is made by numbers, per pair.
typedef struct tutti_reach {
  size_t size;
  double bandwidth;  ///< bytes per second one way, estimated
  double latency;    ///< seconds one way, estimated
  uint32_t capabilities;
  uint32_t preference;  ///< breaks ties, larger wins
} tutti_reach;

/// One setting of an endpoint, as text.
typedef struct tutti_option {
  const char* key;
  const char* value;
} tutti_option;

/// What an endpoint is opened with. Pointers are valid for the life of the endpoint.
typedef struct tutti_endpoint_config {
  size_t size;
  int32_t rank;
  int32_t ranks;
  uint32_t endpoint_class;  ///< TUTTI_CLASS_*: endpoints meet those of their own class only
  /// 32 bytes, of the communicator that was not split off: every connection proves that it knows it.
  const unsigned char* key;
  /// A link breaks after its peer was unreachable for this long in total, counted only while it is polled; 0: never. A peer
  /// that is reachable and silent is late: the caller's own deadline applies.
  uint64_t connect_timeout_ns;
  void (*log)(int level, const char* text);  ///< 0 error .. 4 trace; thread safe; may be NULL
  /// Settings. A transport reads those that it knows (tutti_option_of), and passes over the others:
  ///
  ///   interfaces        comma-separated names; absent: all that are up
  ///   ports             "low-high"; absent: the system's choice
  ///   dscp              of its packets, 0 to 63; absent: the system's
  ///   sockets_per_peer  connections to each peer; absent: the transport's choice
  ///   core_cache_bytes  of the cache that a core has to itself; absent: not known
  ///   device            of TUTTI_CLASS_DEVICE: the number of its GPU, plus one
  ///   device_uuid       likewise, as the driver writes it
  const tutti_option* options;
  size_t option_count;
} tutti_endpoint_config;

/// What an endpoint is made of; constant while it is open.
typedef struct tutti_endpoint_properties {
  size_t size;
  char pci_address[24];   ///< of its network adapter, as in sysfs ("0000:3b:00.0"); "": it has none, or several
  int32_t numa_node;      ///< of that adapter; -1: not known
  double bandwidth;       ///< bytes per second that all its links together can have one way; 0: not known
  uint32_t memory_kinds;  ///< bit 1 << tutti_memory_kind for each kind that it registers
  /// A word that this rank stores with release and peers can see: 1 while it leaves its core to others, else 0. A hint for
  /// ranks that share cores; of several threads the last word counts. NULL: peers cannot see it.
  uint32_t* yielding;
} tutti_endpoint_properties;

typedef enum tutti_direction {
  TUTTI_LINK_SENDS = 0,
  TUTTI_LINK_RECEIVES = 1,
  TUTTI_DIRECTION_LIMIT = 0x7fffffff,
} tutti_direction;

/// What a link is opened with. `slots` and `slot_bytes` are least values, equal on both sides.
typedef struct tutti_link_params {
  size_t size;
  tutti_direction direction;
  int32_t peer;
  const void* descriptor;  ///< the peer's, as `describe` gave it there; read before open_link returns
  size_t descriptor_length;
  uint64_t channel;  ///< of the peer's end, too; any number, and no two links of one direction have the same
  uint32_t slots;
  uint64_t slot_bytes;
} tutti_link_params;

/// Room for one message.
typedef struct tutti_room {
  void* data;
  uint32_t flags;  ///< TUTTI_ROOM_*
} tutti_room;

enum {
  /// It is the receiver's granted memory: the bytes stay where they are written, and are not read by the peer next.
  TUTTI_ROOM_GRANTED = 1,
  /// It is best filled by stores that bypass the caches. A hint, which may differ from message to message: a link may fill
  /// some in the way that it takes for the slower one, to find out.
  TUTTI_ROOM_NON_TEMPORAL = 2,
};

/// One message that has arrived.
typedef struct tutti_message {
  const void* data;  ///< valid until `release`; equals the granted address where it travelled by put
  uint64_t bytes;
  uint64_t fingerprint;  ///< as its sender gave it
} tutti_message;

/// How a file descriptor stands for memory.
typedef enum tutti_fd_kind {
  TUTTI_FD_NONE = 0,
  TUTTI_FD_MEMFD = 1,     ///< a file that peers may map, sealed against shrinking (F_SEAL_SHRINK), or peers refuse it
  TUTTI_FD_CUDA_VMM = 2,  ///< a handle of CUDA's virtual memory management, exported as POSIX descriptor
  TUTTI_FD_DMABUF = 3,    ///< what a network adapter imports
  TUTTI_FD_KIND_LIMIT = 0x7fffffff,
} tutti_fd_kind;

/// Memory to be registered.
typedef struct tutti_memory {
  size_t size;
  tutti_memory_kind kind;  ///< TUTTI_MEMORY_HOST, _CUDA or _MANAGED
  void* base;
  uint64_t bytes;
  tutti_fd_kind fd_kind;
  int32_t fd;          ///< stays open until the region is given up; -1 with TUTTI_FD_NONE
  uint64_t fd_offset;  ///< bytes from the file's beginning to `base`
  int32_t device;      ///< of device and managed memory: the GPU's number plus one; else 0
} tutti_memory;

/// Memory registered with an endpoint; `handle` is the transport's.
typedef struct tutti_region {
  size_t size;
  void* base;
  uint64_t bytes;
  void* handle;
} tutti_region;

/// What is polled, and what a link can do; filled by the transport when the link opens, constant afterwards but for
/// `arrived`.
typedef struct tutti_link_state {
  size_t size;
  uint32_t capabilities;
  /// Messages of any length that may be under way once all credit is returned; no fewer than were asked for. Of short ones
  /// there may be more.
  uint32_t slots;
  uint64_t slot_bytes;  ///< longest message that travels by slot
  /// Receiver: a word that is at least n + 1 once message n has arrived. Messages count from 0, and n is the one that
  /// `view` shows next. Its address is a multiple of 8. It may be another word after `release`: ask again.
  const unsigned char* arrived;
  /// Sender: messages, of those offered or committed, whose source may be overwritten. NULL: nothing can be offered and
  /// nothing is counted. A slot's message needs no such word, so it may advance as late as the receiver's release. With
  /// TUTTI_NEEDS_PROGRESS it does not advance before the message needs no more `progress` here.
  const uint64_t* reusable;
  /// The peer's `yielding`, to be loaded with acquire. Where it is 1, what the peer sent before can be viewed, and nothing
  /// new comes for a while. NULL: it cannot be told.
  const uint32_t* peer_yielding;
} tutti_link_state;

/// What a link has carried since it was opened.
typedef struct tutti_link_stats {
  size_t size;
  uint64_t messages;  ///< sender: sent; receiver: released
  uint64_t bytes;     ///< of those messages
  uint64_t stalls;    ///< sender: times that room was asked for in vain, each time of asking again too
} tutti_link_stats;

/// What became of granted and offered memory when a link is given up.
typedef enum tutti_quiesced {
  TUTTI_QUIESCED = 0,         ///< nobody uses it any more: the peer agreed, or there was none
  TUTTI_FENCED = 1,           ///< nobody can use it any more: socket closed, queue pair in error, process dead
  TUTTI_QUARANTINED = 2,      ///< somebody may still write it, and that will not change: it may not be reused
  TUTTI_QUIESCE_NOT_YET = 3,  ///< the peer writes at this moment, as far as can be seen: progress, and ask again
  TUTTI_QUIESCED_LIMIT = 0x7fffffff,
} tutti_quiesced;

/// A link as a kernel uses it: device pointers, all valid while the link is open. "Own" lies in this rank's memory and is
/// written by the peer; "peer" is written by this rank.
typedef struct tutti_device_link {
  size_t size;
  uint32_t slots;
  uint64_t slot_bytes;
  uint64_t *own_arrived, *peer_arrived;  ///< messages that have come
  uint64_t *own_credit, *peer_credit;    ///< messages that were released
  void *own_data, *peer_data;            ///< the slots, one behind the other
  void *own_lines, *peer_lines;          ///< short messages that carry their own flags
  void *own_places, *peer_places;        ///< where messages that skip the slots shall land
} tutti_device_link;

typedef struct tutti_transport {
  size_t size;   ///< sizeof(tutti_transport)
  uint32_t abi;  ///< TUTTI_TRANSPORT_ABI
  const char* name;

  // ---- Endpoints.
  /// Whether this machine and process can use the transport, for one peer at least; writes `why` either way. A limit of
  /// the process that would keep links from opening is best found here: pairs then use another transport.
  int (*viable)(char* why, size_t n);
  /// Opens this rank's end. Returns TUTTI_SUCCESS or a status, with `why`.
  tutti_status (*open)(const tutti_endpoint_config* config, tutti_endpoint** endpoint, char* why, size_t n);
  /// Frees the endpoint and all that it opened. Bounded: it drops what peers have not taken. Memory that was offered on a
  /// link which is still open may be read until this returns.
  void (*close)(tutti_endpoint*);
  /// What the endpoint is made of. properties->size is the caller's.
  void (*properties)(tutti_endpoint*, tutti_endpoint_properties* properties);
  /// Writes a descriptor of at most TUTTI_DESCRIPTOR_MAX bytes, which peers get; returns its length.
  size_t (*describe)(tutti_endpoint*, void* descriptor);
  /// Whether and how well the rank behind `descriptor` can be reached: 1 and *reach filled, or 0; writes `why` either way.
  int (*reach)(tutti_endpoint*, int peer, const void* descriptor, size_t length, tutti_reach* reach, char* why, size_t n);
  /// Whether a path to that peer has proved itself, which `reach` said there is: OK, NOT_YET, or BROKEN and `why`. Asked
  /// again and again, with `progress` in between, on both sides at about the same time. OK says, too, that the peer needs
  /// at most one more `progress` here to prove it. NULL: reaching is proof enough.
  tutti_link_result (*probe)(tutti_endpoint*, int peer, const void* descriptor, size_t length, char* why, size_t n);
  /// Writes by which paths that peer's links travel, and why by those, for the log. NULL: there is nothing to say.
  void (*explain)(tutti_endpoint*, int peer, char* text, size_t n);
  /// Moves bytes, accepts connections, updates words. Cheap when there is nothing to do. TUTTI_LINK_OK if something
  /// moved, else TUTTI_LINK_NOT_YET; links break, endpoints do not.
  tutti_link_result (*progress)(tutti_endpoint*);
  /// A descriptor that polls readable when there is something for `progress`, or -1.
  int (*event_fd)(tutti_endpoint*);
  /// Asks peers to make that descriptor readable (1: about to sleep), or no longer (0: awake). It may be asked twice
  /// without being awake in between. The descriptor is then readable at once if a peer has woken it meanwhile and
  /// `progress` has not moved all that came. A wake-up may be lost in a race, so the caller's naps are bounded.
  void (*arm)(tutti_endpoint*, int sleeping);

  // ---- Links.
  /// Begins to open one end of a link: non-blocking, one call per (peer, channel, direction). Returns TUTTI_SUCCESS or a
  /// status, with `why`.
  tutti_status (*open_link)(tutti_endpoint*, const tutti_link_params* params, tutti_link** link, char* why, size_t n);
  /// OK and *state filled once it is open, NOT_YET, or BROKEN.
  tutti_link_result (*link_state)(tutti_link*, tutti_link_state* state);
  /// OK while the link is sound, else BROKEN and `why`. Cheap; it needs progress to notice. A receiving link whose peer
  /// left in order is sound until the messages that came are released.
  tutti_link_result (*failure)(tutti_link*, char* why, size_t n);
  /// Takes back what the link has granted and offered, and gives back the room that it has reserved in the peer's granted
  /// memory. Only `quiesce`, `failure`, `link_stats` and `close_link` may follow. An answer other than
  /// TUTTI_QUIESCE_NOT_YET is final.
  tutti_quiesced (*quiesce)(tutti_link*);
  /// Frees the link, after what was committed has been handed over as far as the peer takes it without waiting. What
  /// `quiesce` would have answered is then unknown: call that first.
  void (*close_link)(tutti_link*);
  /// What the link has carried. stats->size is the caller's. NULL: nobody counts.
  void (*link_stats)(tutti_link*, tutti_link_stats* stats);

  // ---- Sender.
  /// Room for a message of `bytes`, 0 to slot_bytes; aligned to 64 bytes where it is longer than that. It is the memory
  /// that the receiver granted for this length and fingerprint, where this side can write that. One reservation at a time:
  /// asking again before `commit` gives the same room. A message whose room is not granted memory may be offered instead.
  /// NOT_YET: no credit now. BROKEN once `failure` says so, as with every operation below. *room is
  /// written with OK only, and its data is not NULL.
  tutti_link_result (*reserve)(tutti_link*, uint64_t bytes, uint64_t fingerprint, tutti_room* room);
  /// Sends what was reserved; `bytes` and `fingerprint` as reserved. Never fails for want of credit.
  tutti_link_result (*commit)(tutti_link*, uint64_t bytes, uint64_t fingerprint);
  /// `reserve`, a copy of `bytes` (1 to slot_bytes) from `source`, and `commit`, in one call. It is for short messages in
  /// one piece, of which each of the three would be a good part. Nothing may be reserved. `source` may be changed as soon
  /// as it returns. NOT_YET: no credit now, and nothing has happened. A transport without a shorter way calls
  /// tutti_send_in_parts.
  tutti_link_result (*send)(tutti_link*, const void* source, uint64_t bytes, uint64_t fingerprint);
  /// Sends from the caller's memory, which may not change until `reusable` has counted this message. region: NULL where
  /// the link can offer any memory. NOT_YET: no credit now. NULL: nothing can be offered.
  tutti_link_result (*offer)(tutti_link*, const tutti_region* region, const void* source, uint64_t bytes,
                             uint64_t fingerprint);
  /// NOT_YET while the transport still holds what the peer can only get by `progress`. That is bytes, or returned credit
  /// without which the peer has less than it asked for.
  tutti_link_result (*flushed)(tutti_link*);

  // ---- Receiver.
  /// The oldest message not yet released: OK, NOT_YET or BROKEN.
  tutti_link_result (*view)(tutti_link*, tutti_message* message);
  /// To be asked of a viewed message when it has been read: BROKEN says that the sender took its memory back meanwhile, and
  /// what was read may be anything; else OK. NULL: the link never has TUTTI_READS_PEER.
  tutti_link_result (*revalidate)(tutti_link*);
  /// Gives back the viewed message's room (credit).
  void (*release)(tutti_link*);
  /// Announces where the first message that was neither viewed nor granted shall land. It lands there only if it has
  /// exactly this length and fingerprint: nothing of another operation is ever put into the caller's memory. A hint that
  /// the link may ignore. At most one grant is ahead of the viewed message. Only OK makes a grant, which stands until its
  /// message is released or the link is given up. NOT_YET: it has come already, or cannot be used. NULL: nothing can be
  /// granted.
  tutti_link_result (*grant)(tutti_link*, const tutti_region* region, void* target, uint64_t bytes, uint64_t fingerprint);

  // ---- Memory. NULL, all of them, where no link has use for it.
  /// Registers memory; *memory is read before it returns. Returns TUTTI_SUCCESS or a status, with `why`.
  tutti_status (*register_memory)(tutti_endpoint*, const tutti_memory* memory, tutti_region* region, char* why, size_t n);
  void (*unregister_memory)(tutti_endpoint*, tutti_region*);
  /// Makes what has arrived in the region by the link visible to kernels of its device: to be called after `view`. OK,
  /// NOT_YET or BROKEN. NULL: it is visible when it has arrived.
  tutti_link_result (*flush)(tutti_link*, const tutti_region* region);
  /// The open link's state for kernels. OK, or BROKEN. NULL: no link has TUTTI_DEVICE_LINK.
  tutti_link_result (*device_link)(tutti_link*, tutti_device_link* state);
} tutti_transport;

/// The value of an option of that key, NULL where it is absent.
static inline const char* tutti_option_of(const tutti_endpoint_config* config, const char* key) {
  for (size_t i = 0; i < config->option_count; ++i) {
    if (strcmp(config->options[i].key, key) == 0) return config->options[i].value;
  }
  return NULL;
}

/// A `send` by the transport's own `reserve` and `commit`.
static inline tutti_link_result tutti_send_in_parts(tutti_link_result (*reserve)(tutti_link*, uint64_t, uint64_t,
                                                                                 tutti_room*),
                                                    tutti_link_result (*commit)(tutti_link*, uint64_t, uint64_t),
                                                    tutti_link* link, const void* source, uint64_t bytes,
                                                    uint64_t fingerprint) {
  tutti_room room;
  const tutti_link_result reserved = reserve(link, bytes, fingerprint, &room);
  if (reserved != TUTTI_LINK_OK) return reserved;
  memcpy(room.data, source, bytes);
  return commit(link, bytes, fingerprint);
}

#ifdef __cplusplus
}
#endif
#endif  // TUTTI_TRANSPORT_H_
