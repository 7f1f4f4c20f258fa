// The one transport interface: what the library's own transports implement, and outsiders' plugins too.
//
// A plugin is a shared object in TUTTI_PLUGIN_PATH that exports one symbol, `tutti_transport_plugin`, of type
// tutti_transport. Structs that may grow start with their size: what lies beyond the plugin's size is read as NULL, so a
// plugin that was built against an older header keeps working, and what is added to a struct is added at its end. Optional
// operations are NULL, never functions that fail.
//
// Objects. An *endpoint* is one rank's end of one transport, for one communicator and one class of traffic. A *link* is
// one ordered direction between two ranks, (peer, channel): messages arrive in the order they were sent, and nothing is
// put on a wire without room at its end, so that no message blocks another link's. Links are opened lazily, by both
// sides, each naming the same channel.
//
// Threads. One thread at a time uses an endpoint and its links; different endpoints are independent. Nothing here blocks,
// `close` excepted, which is bounded: what cannot be done now answers "not yet", and the caller waits, calling `progress`,
// with a deadline of its own.
//
// Messages. Each is at most `slot_bytes` long (as agreed when the link was opened) where it travels by slot, and may be
// longer where it is offered. How it travels, by slot, by pull (the receiver reads the sender's offered memory) or by put
// (the bytes land in memory that the receiver granted), is decided per message by the pair of links.
//
// Completion. Two counts of messages, each a 64-bit word that the agent (the thread that runs the rank's operations) polls
// with acquire loads, and that advances only when the data is visible to it: `arrived` at the receiver, which may be
// another word for each message, and `reusable` at the sender (the source of an offer may be overwritten; a slot is always
// reusable at once from the caller's point of view).
#ifndef TUTTI_TRANSPORT_H_
#define TUTTI_TRANSPORT_H_

#include "tutti.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Goes up where structs change otherwise than at their ends: plugins of another number are refused.
#define TUTTI_TRANSPORT_ABI 2
/// Longest descriptor that `describe` may give.
#define TUTTI_DESCRIPTOR_MAX 2048

typedef struct tutti_endpoint tutti_endpoint;  ///< defined by the transport
typedef struct tutti_link tutti_link;          ///< defined by the transport

/// What an operation of a link came to.
typedef enum tutti_link_result {
  TUTTI_LINK_OK = 0,
  TUTTI_LINK_NOT_YET = 1,  ///< no credit, no message, not open yet: progress and try again
  TUTTI_LINK_BROKEN = 2,   ///< the peer died or closed, or the system failed: see `failure`
} tutti_link_result;

/// What a pair of links can do beyond slots; flags of tutti_reach.capabilities and of tutti_link_state.
enum {
  TUTTI_CAN_OFFER_ANY = 1,         ///< any host memory may be offered
  TUTTI_CAN_OFFER_REGISTERED = 2,  ///< memory of a region of this endpoint may be offered
  TUTTI_CAN_GRANT_ANY = 4,         ///< any host memory may be granted
  TUTTI_CAN_GRANT_REGISTERED = 8,  ///< memory of a region of this endpoint may be granted
  TUTTI_READS_PEER = 16,           ///< `view` shows the sender's own memory: a source operand may be the peer's memory
  TUTTI_NEEDS_PROGRESS = 32,       ///< bytes move, and the words advance, only while `progress` is called
};

/// How a peer can be reached: data, so that the choice between transports is made by numbers, per pair.
typedef struct tutti_reach {
  size_t size;
  double bandwidth;  ///< bytes per second one way, estimated
  double latency;    ///< seconds one way, estimated
  uint32_t capabilities;
  uint32_t preference;  ///< breaks ties, larger wins
} tutti_reach;

/// What an endpoint is opened with. Pointers are valid for the life of the endpoint.
typedef struct tutti_endpoint_config {
  size_t size;
  int32_t rank;
  int32_t ranks;
  uint32_t traffic_class_index;  ///< 0 collective, 1 point to point
  const unsigned char* key;      ///< 32 bytes, the communicator's: every connection proves that it knows it
  const char* interfaces;        ///< comma-separated names, "" for all that are up
  uint32_t port_low, port_high;  ///< 0, 0: the system's choice
  /// A link whose peer cannot be reached for so long altogether, while somebody looks, breaks; 0: none does. A peer that
  /// can be, and does not answer, is late: how long that is borne is the caller's to say.
  uint64_t connect_timeout_ns;
  uint32_t traffic_class;                    ///< DSCP, 0: the system's
  int32_t sockets_per_peer;                  ///< 0: the transport's choice
  void (*log)(int level, const char* text);  ///< 0 error .. 4 trace; thread safe; may be NULL
  uint64_t core_cache_bytes;                 ///< of the cache that a core has to itself; 0: not known
} tutti_endpoint_config;

/// One message that has arrived.
typedef struct tutti_message {
  const void* data;  ///< valid until `release`; equals the granted address where it travelled by put
  uint64_t bytes;
  uint64_t fingerprint;  ///< as its sender gave it
} tutti_message;

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
  /// Receiver: the word that is at least n + 1 once message n (from 0) has arrived, where n is the one that `view` would
  /// show next, at an address that is a multiple of 8. It may be another word after `release`: ask again.
  const unsigned char* arrived;
  /// Sender: messages, of those offered or committed, whose source may be overwritten; NULL where nothing can be offered
  /// and nothing is counted. For a slot's message, which needs no such word, it may advance as late as the receiver's
  /// release; with TUTTI_NEEDS_PROGRESS not before its bytes need no more `progress` here.
  const uint64_t* reusable;
} tutti_link_state;

/// What became of granted memory when a link is given up.
typedef enum tutti_quiesced {
  TUTTI_QUIESCED = 0,     ///< nobody will write it any more: the peer agreed, or nothing was granted
  TUTTI_FENCED = 1,       ///< nobody can write it any more: socket closed, queue pair in error, process dead
  TUTTI_QUARANTINED = 2,  ///< somebody may still write it: it may not be reused
} tutti_quiesced;

typedef struct tutti_transport {
  size_t size;   ///< sizeof(tutti_transport)
  uint32_t abi;  ///< TUTTI_TRANSPORT_ABI
  const char* name;

  // A `why` is a sentence, and where something can be done about it a full stop and that remedy. One that begins "this
  // process " says that this process lacks something: such a limit is no fault of a peer's, and users are warned of it.

  /// Whether this machine and process can use the transport, for one peer at least; writes `why` (at most n bytes) either
  /// way. A limit of the process that would keep links from opening is best found here: pairs then use another transport.
  int (*viable)(char* why, size_t n);

  /// Opens this rank's end. Returns TUTTI_SUCCESS or a status, with a sentence in `why`.
  tutti_status (*open)(const tutti_endpoint_config* config, tutti_endpoint** endpoint, char* why, size_t n);
  /// Frees the endpoint and all that it opened. Bounded: drops what peers have not taken. Memory offered on a link that was
  /// not closed before is read until this returns.
  void (*close)(tutti_endpoint*);
  /// Writes a descriptor of at most TUTTI_DESCRIPTOR_MAX bytes, which peers get; returns its length.
  size_t (*describe)(tutti_endpoint*, void* descriptor);
  /// Whether and how well the rank behind `descriptor` can be reached: 1 and *reach filled, or 0 with a sentence in why.
  int (*reach)(tutti_endpoint*, int peer, const void* descriptor, size_t length, tutti_reach* reach, char* why, size_t n);

  /// Moves bytes, accepts connections, updates words. Cheap when there is nothing to do. TUTTI_LINK_OK if something
  /// moved, else TUTTI_LINK_NOT_YET; links break, endpoints do not.
  tutti_link_result (*progress)(tutti_endpoint*);
  /// A descriptor that polls readable when there is something for `progress`, or -1. `arm` (1: about to sleep, 0: awake)
  /// asks peers to wake it. Asked again without having been told that the caller is awake, it polls readable at once if a
  /// peer has woken it since and `progress` has not moved all that came. A wake-up may be lost in a race; the caller's naps
  /// are bounded for that reason.
  int (*event_fd)(tutti_endpoint*);
  void (*arm)(tutti_endpoint*, int sleeping);

  /// Begins to open the sending or receiving end of a link: non-blocking, one call per (peer, channel, direction).
  /// descriptor: the peer's, as `describe` gave it there. slots and slot_bytes: at least these, equal on both sides.
  tutti_status (*open_sender)(tutti_endpoint*, int peer, const void* descriptor, size_t length, uint32_t channel,
                              uint32_t slots, uint64_t slot_bytes, tutti_link** link);
  tutti_status (*open_receiver)(tutti_endpoint*, int peer, const void* descriptor, size_t length, uint32_t channel,
                                uint32_t slots, uint64_t slot_bytes, tutti_link** link);
  /// OK and *state filled once it is open, NOT_YET, or BROKEN.
  tutti_link_result (*link_state)(tutti_link*, tutti_link_state* state);
  /// OK while the link is sound, else BROKEN and `why`, which begins "this process " for what lacks here. Cheap; needs
  /// progress to notice. A receiving link whose peer left in order is sound until the messages that came are released.
  tutti_link_result (*failure)(tutti_link*, char* why, size_t n);
  /// Gives the link up, after what was committed has been handed over as far as the peer takes it without waiting.
  tutti_quiesced (*close_link)(tutti_link*);

  // ---- Sender.
  /// Room for a message of `bytes`, <= slot_bytes, aligned to 64 bytes where it is longer than that; NULL: no credit now,
  /// or broken. One reservation at a time; asking again before `commit` gives the same room, and where that is not granted
  /// memory the message may be offered instead. Where the receiver granted memory that this side can write, for this length
  /// and fingerprint, that very memory.
  void* (*reserve)(tutti_link*, uint64_t bytes, uint64_t fingerprint);
  /// Sends what was reserved; `bytes` and `fingerprint` as reserved. Never fails for want of credit.
  tutti_link_result (*commit)(tutti_link*, uint64_t bytes, uint64_t fingerprint);
  /// Sends from the caller's memory, which may not change until `reusable` has counted this message. region: NULL where
  /// the link can offer any memory. NOT_YET: no credit now.
  tutti_link_result (*offer)(tutti_link*, const tutti_region* region, const void* source, uint64_t bytes,
                             uint64_t fingerprint);
  /// NOT_YET while the transport still holds what the peer can only get by `progress`: bytes, or returned credit without
  /// which it has less than it asked for.
  tutti_link_result (*flushed)(tutti_link*);

  // ---- Receiver.
  /// The oldest message not yet released: OK, NOT_YET or BROKEN. One that a link with TUTTI_READS_PEER gave is viewed once
  /// more when it has been read: BROKEN says that the sender took its memory back meanwhile, and what was read may be
  /// anything.
  tutti_link_result (*view)(tutti_link*, tutti_message* message);
  /// Gives back the viewed message's room (credit).
  void (*release)(tutti_link*);
  /// Announces where the first message that was neither viewed nor granted shall land if it has exactly this length and
  /// fingerprint; any other travels as if there were no grant, so nothing of another operation is ever put into the
  /// caller's memory. A hint that the link may ignore. At most one ahead of the viewed message; only OK makes a grant,
  /// which stands until its message is released or the link is given up. NOT_YET: it has come already, or cannot be used.
  tutti_link_result (*grant)(tutti_link*, const tutti_region* region, void* target, uint64_t bytes, uint64_t fingerprint);

  // ---- Regions, optional.
  /// Registers memory. fd >= 0: it is `bytes` at fd_offset of that file, which peers may map; it is sealed against
  /// shrinking (F_SEAL_SHRINK), or peers refuse it, and stays open until the region is given up.
  tutti_status (*register_region)(tutti_endpoint*, void* base, uint64_t bytes, int fd, uint64_t fd_offset,
                                  tutti_region* region);
  void (*unregister_region)(tutti_endpoint*, tutti_region*);

  // ---- Sender, optional, not in the first header of this ABI.
  /// Whether the room last reserved is the receiver's granted memory: then whoever fills it writes where the bytes stay,
  /// and not what the peer is about to read.
  int (*granted)(tutti_link*);

  // ---- Both ends, optional, likewise.
  /// Takes back what the link has granted, and gives back the room that it has reserved in the peer's granted memory;
  /// nothing but `close_link` may follow. QUARANTINED: the peer writes at this moment, as far as can be seen: `progress`,
  /// and ask again. NULL: `close_link` alone answers.
  tutti_quiesced (*withdraw)(tutti_link*);

  // ---- Sender, optional, likewise.
  /// Whether the room last reserved, for a message of `bytes`, is best filled by stores that bypass the caches, because the
  /// peer reads it sooner, or lets it be overwritten sooner, from memory. A hint, which may differ from message to message:
  /// a link may fill some in the way that it takes for the slower one, to find out.
  int (*streams)(tutti_link*, uint64_t bytes);

  // ---- Both ends, optional, likewise, both or neither: hints for ranks that share cores.
  /// Tells all peers that this rank leaves its core to others (1), or has it again (0).
  void (*step_aside)(tutti_endpoint*, int aside);
  /// Whether the peer at the other end of an open link has said last that it leaves its core: then what it sent before can
  /// be viewed, and nothing new comes for a while. 1 as well where that cannot be told.
  int (*peer_is_aside)(tutti_link*);

  // ---- Sender, optional, likewise.
  /// `reserve`, a copy of `bytes` (1 to slot_bytes) from `source` into that room, granted memory or not, and `commit`, in
  /// one: for short messages that lie in one piece, of which each of the three would be a good part. Nothing may be
  /// reserved. `source` may be changed as soon as it returns. NOT_YET: no credit now, and nothing has happened.
  tutti_link_result (*send)(tutti_link*, const void* source, uint64_t bytes, uint64_t fingerprint);

  // ---- Endpoint, optional, likewise.
  /// Writes why the last call of open_sender, open_receiver or register_region that failed on this endpoint did so; an
  /// empty string where none has.
  void (*refusal)(tutti_endpoint*, char* why, size_t n);
} tutti_transport;

#ifdef __cplusplus
}
#endif
#endif  // TUTTI_TRANSPORT_H_
