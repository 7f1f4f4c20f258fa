// Tutti: collective communication on host and device memory. The C face, with a stable ABI.
//
// Verbs, argument order and the values of types, operators and statuses are NCCL's where it has them. Every struct that
// may grow starts with `size`, which the caller sets to sizeof (TUTTI_CALL_INIT and TUTTI_CONFIG_INIT do): a library newer
// than its caller reads no field that the caller does not have. Fields have an "unset" value, 0 or NULL unless said
// otherwise.
//
// No function aborts the process, prints to stdout, or lets a C++ exception through. Every wait has a deadline.
// "Collective over comm" means: every rank of the communicator calls it, in the same order.
#ifndef TUTTI_TUTTI_H_
#define TUTTI_TUTTI_H_

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define TUTTI_API __attribute__((visibility("default")))
#else
#define TUTTI_API
#endif

#define TUTTI_VERSION_MAJOR 0
#define TUTTI_VERSION_MINOR 1
#define TUTTI_VERSION_PATCH 0
/// major * 10000 + minor * 100 + patch, what tutti_version returns.
#define TUTTI_VERSION 100

#ifdef __cplusplus
extern "C" {
#endif

/// What a call came to. 0 to 8 are NCCL's values. tutti_error_get gives the sentence behind any but the first.
typedef enum tutti_status {
  TUTTI_SUCCESS = 0,
  TUTTI_UNHANDLED_CUDA_ERROR = 1,
  TUTTI_SYSTEM_ERROR = 2,      ///< the operating system refused: memory, descriptors, sockets
  TUTTI_INTERNAL_ERROR = 3,    ///< a defect of this library
  TUTTI_INVALID_ARGUMENT = 4,  ///< a value that no call can take; nothing was sent
  TUTTI_INVALID_USAGE = 5,     ///< a legal value at the wrong time; nothing was sent
  TUTTI_REMOTE_ERROR = 6,      ///< a peer died, left or failed; the error names it
  TUTTI_IN_PROGRESS = 7,       ///< not an error: a non-blocking call has not finished, or what was called waits for one
  TUTTI_TIMEOUT = 8,           ///< a deadline passed
  TUTTI_MISMATCH = 64,         ///< ranks called different operations, or the same one with different arguments
  TUTTI_ABORTED = 65,          ///< ended from outside, here or on a peer: by tutti_comm_abort, the poll hook,
                               ///< tutti_comm_destroy, or the cancellation of a thread within a send or receive
  TUTTI_UNSUPPORTED = 66,      ///< a feature that this build or machine does not have; the sentence says which
} tutti_status;

/// Element types. 0 to 11 are NCCL's values. docs/matrix.md lists which operators apply to which.
typedef enum tutti_type {
  TUTTI_INT8 = 0,
  TUTTI_UINT8 = 1,
  TUTTI_INT32 = 2,
  TUTTI_UINT32 = 3,
  TUTTI_INT64 = 4,
  TUTTI_UINT64 = 5,
  TUTTI_FLOAT16 = 6,
  TUTTI_FLOAT32 = 7,
  TUTTI_FLOAT64 = 8,
  TUTTI_BFLOAT16 = 9,
  TUTTI_FLOAT8_E4M3 = 10,  ///< OCP's: up to 448, no infinity; what is too large becomes NaN
  TUTTI_FLOAT8_E5M2 = 11,  ///< OCP's: the upper half of a float16, infinity as there
  TUTTI_BOOL = 64,         ///< one byte: 0 is false, any other true
  TUTTI_INT16 = 65,
  TUTTI_UINT16 = 66,
  TUTTI_COMPLEX64 = 67,           ///< two float32: real and imaginary part
  TUTTI_COMPLEX128 = 68,          ///< two float64
  TUTTI_OPAQUE = 128,             ///< TUTTI_OPAQUE + n is an element of n bytes that no operator touches
  TUTTI_TYPE_LIMIT = 0x7fffffff,  ///< no type: the enumeration holds values that are made while a program runs
} tutti_type;

/// Reduction operators. 0 to 4 are NCCL's values. Integers wrap. Floats of 8 and 16 bits are added in float32, and rounded
/// to nearest even with each message. What is too large for its type becomes infinity, and in E4M3 NaN. min and max give
/// NaN where an operand is NaN, and take −0 to be less than +0. Every NaN that a fold writes is quiet and positive. avg is
/// the sum divided by the number of ranks (integers: rounded towards zero). Subnormal numbers are kept. A product of
/// complex numbers is (ac − bd) + (ad + bc)i, each operation rounded.
///
/// Bitwise operators take integers and bool, logical ones too. Those give 0 or 1 of the element's type; what is not 0 is
/// true. For bool sum, max and or are "or", and prod, min and and are "and". In a group of one rank the bits stay as they
/// are. An operator that does not apply to a type is TUTTI_INVALID_ARGUMENT.
typedef enum tutti_op {
  TUTTI_SUM = 0,
  TUTTI_PROD = 1,
  TUTTI_MAX = 2,
  TUTTI_MIN = 3,
  TUTTI_AVG = 4,
  TUTTI_BITWISE_AND = 64,
  TUTTI_BITWISE_OR = 65,
  TUTTI_BITWISE_XOR = 66,
  TUTTI_LOGICAL_AND = 67,
  TUTTI_LOGICAL_OR = 68,
  TUTTI_LOGICAL_XOR = 69,
  TUTTI_OP_LIMIT = 0x7fffffff,  ///< no operator: as TUTTI_TYPE_LIMIT
} tutti_op;

typedef struct tutti_comm tutti_comm;    ///< one rank's membership of a group of ranks
typedef struct tutti_work tutti_work;    ///< an operation under way
typedef struct tutti_queue tutti_queue;  ///< runs operations in order, on a thread of the library's or one that waits

/// Where an operation runs. Passed by value; zero-initialised it is BLOCKING.
typedef enum tutti_stream_kind {
  TUTTI_STREAM_BLOCKING = 0,  ///< runs now, in the calling thread, and returns when done
  TUTTI_STREAM_QUEUE = 1,     ///< handle is a tutti_queue*: returns once enqueued
  TUTTI_STREAM_CUDA = 2,      ///< handle is a cudaStream_t (NULL is the null stream): see "Device memory"
} tutti_stream_kind;
typedef struct tutti_stream {
  tutti_stream_kind kind;
  void* handle;
} tutti_stream;

/// Options of one call; NULL means all unset.
typedef struct tutti_call {
  size_t size;            ///< sizeof(tutti_call)
  uint64_t timeout_ns;    ///< deadline, counted from when the operation's turn comes on its stream; 0: the communicator's
  uint64_t tag;           ///< point to point: messages match by (communicator, source, tag)
  int32_t priority;       ///< larger is more urgent; a hint, equal on all ranks
  const char* name;       ///< for errors and recordings, copied; NULL: none
  const char* algorithm;  ///< overrides selection, equal on all ranks; NULL: the library chooses
  tutti_type accumulate;  ///< TUTTI_FLOAT32: sums, products and averages of floats of up to 32 bits are folded in float32
                          ///< and rounded once; TUTTI_INT8 (0): unset. No matter to other operators. Equal on all ranks
  tutti_work** work;      ///< if not NULL, receives a handle that the caller must release; NULL where the call was refused
  int32_t reproducible;   ///< 1: the result's bits depend on the operands and their order alone, see TUTTI_REPRODUCIBLE in
                          ///< tutti_config; 0: as the communicator's. Equal on all ranks
  uint32_t canonical;     ///< operands of the whole fold of an all_reduce or reduce, shared evenly by the ranks: a multiple
                          ///< of their number. `send` holds canonical / ranks of them, of `count` elements each, one behind
                          ///< the other. Rank 0's come first in the fold. So a result does not depend on how many ranks
                          ///< share the operands. In place: recv is the first. 0: one operand, as others have
  int32_t fuse;           ///< of the outermost tutti_group_end: 1: its small collectives go together, see there. The caller
                          ///< promises that all ranks make the same calls in such a group. They change streams at the
                          ///< same calls, and what one call writes no other of them reads or writes. 0: each goes by itself
  uint32_t flags;         ///< TUTTI_SOFT_DEADLINE, or 0
  uint64_t user_tag;      ///< a number of the caller's own, told by tutti_work_info and in errors; no matter to others
  uint32_t min_blocks;    ///< of a collective on a device: as in tutti_config, for this call; 0: as there. What several
  uint32_t max_blocks;    ///< calls share, a launch, goes by the first one's
} tutti_call;
#define TUTTI_CALL_INIT {sizeof(tutti_call), 0, 0, 0, NULL, NULL, TUTTI_INT8, NULL, 0, 0, 0, 0, 0, 0, 0}

/// tutti_call.flags, of a send or a receive, and of the outermost tutti_group_end for those without a timeout of their own:
/// where the timeout passes before a match was met, the transfer alone ends, with TUTTI_TIMEOUT, as by tutti_work_cancel:
/// a send that its receiver has heard of up to a tenth of a second later. The communicator stays sound. One that has met
/// its match goes on, for as long as the communicator's timeout more.
#define TUTTI_SOFT_DEADLINE 1u

/// A timeout that never passes. Whoever waits for a rank that has died hears of that all the same.
#define TUTTI_NO_TIMEOUT (UINT64_C(1) << 62)

/// A source that matches any rank, for tutti_recv.
#define TUTTI_ANY_SOURCE (-1)

/// 128 opaque bytes that let ranks find and trust each other: a key and the maker's addresses. Whoever has it can join,
/// so treat it as a secret. Any process may make one.
typedef struct tutti_unique_id {
  unsigned char bytes[128];
} tutti_unique_id;
/// Length of the printable form, its terminating NUL included.
#define TUTTI_UNIQUE_ID_TEXT 264

/// How ranks exchange bytes before there is a communicator: gathers `n` bytes of every rank into out[rank * n]. Called by
/// the thread that called tutti_comm_create_bootstrap, during that call only. Returns 0, or non-zero on failure.
typedef struct tutti_bootstrap {
  size_t size;  ///< sizeof(tutti_bootstrap)
  void* ctx;
  int (*allgather)(void* ctx, const void* in, size_t n, void* out, uint64_t timeout_ns);
} tutti_bootstrap;

/// What a communicator is created with; NULL means all unset. An environment variable that is set wins over its field, a
/// field over the default. `tutti-doctor --settings` lists the variables and what their values look like: words and units
/// (TUTTI_SPIN=always, TUTTI_CONNECT_TIMEOUT=60s) where fields are numbers.
typedef struct tutti_config {
  size_t size;                    ///< sizeof(tutti_config)
  int32_t non_blocking;           ///< 1: what is made with this config returns TUTTI_IN_PROGRESS at once, see
                                  ///< tutti_comm_state. 2: so do its tutti_comm_finalize, and what is made from it without
                                  ///< another config
  const char* name;               ///< for errors and logs; NULL: "world", or "world/color" after a split
  const char* transports;         ///< TUTTI_TRANSPORTS: comma-separated names that may be used; NULL: all that are viable
  const char* algorithm;          ///< TUTTI_ALGORITHM: NAME, COLLECTIVE:NAME or COLLECTIVE:FROM-TO:NAME (bytes, as
                                  ///< 64K-1M), separated by commas, of which the first that fits a call counts;
                                  ///< `tutti-plan cost` lists the names; NULL: the library chooses
  const char* interface;          ///< TUTTI_INTERFACE: comma-separated network interfaces; NULL: all that are up
  const char* secret;             ///< TUTTI_SECRET: the key for env:// and tcp://
  int32_t lanes;                  ///< TUTTI_LANES; 0: the library chooses
                                  // Timeouts are at most 2^62 ns here; those of tutti_call and tutti_comm_set_timeout
                                  // take any number, as UINT64_MAX.
  uint64_t connect_timeout_ns;    ///< TUTTI_CONNECT_TIMEOUT; 0: 60 s. Creation, and reaching a peer
  uint64_t operation_timeout_ns;  ///< TUTTI_OPERATION_TIMEOUT; 0: 300 s. Any one operation
  uint64_t idle_timeout_ns;       ///< TUTTI_IDLE_TIMEOUT; 0: 10 s. A peer that is silent this long is lost
  int (*poll)(void* ctx);         ///< asked in the caller's own thread, never in one of the library's. A blocking creation
                                  ///< or split asks at least once before it succeeds, even where it waits for nobody;
                                  ///< a group's end asks each hook of its creations once before it begins them. Every
                                  ///< other call asks only while it waits, about each millisecond: one that is done
                                  ///< sooner may never ask. A non-blocking creation asks nobody; abort it instead.
                                  ///< Non-zero ends the wait with TUTTI_ABORTED: an operation on a queue goes on; a
                                  ///< blocking operation, split or finalize makes the communicator fail, on all ranks.
                                  ///< No C++ exception may leave it
  void* poll_ctx;
  int32_t spin;            ///< TUTTI_SPIN, which takes the words: 0 adapt, 1 always, -1 never
  uint32_t min_blocks;     ///< TUTTI_MIN_BLOCKS: fewest thread blocks that a launch on a device takes; 0: no such limit
  uint32_t max_blocks;     ///< TUTTI_MAX_BLOCKS: most
  uint32_t traffic_class;  ///< network traffic class (DSCP, 0 to 63) of collectives and transfers; 0: the system's
  int32_t device;          ///< TUTTI_DEVICE, which counts from 0: CUDA device + 1; 0: the current one
  int32_t priority;        ///< default of tutti_call.priority
  int32_t memory;          ///< TUTTI_MEMORY: tutti_memory_kind of the buffers that will be passed; unset: auto
  const char* tuning;      ///< TUTTI_TUNING: a tuning table's path, the same table on all ranks; NULL: built-in estimates
  const char* msccl;     ///< TUTTI_MSCCL: comma-separated paths of MSCCL algorithm files, the same on all ranks, each used
                         ///< for the calls that it is for; NULL: none
  int32_t reproducible;  ///< TUTTI_REPRODUCIBLE: 1: sums, products and averages of floats fold all operands at once, in
                         ///< rank order. So the bits depend on these alone: not on algorithm, transport, count, place in a
                         ///< buffer or memory's kind. Other results do not in any case. Equal on all ranks
  const int32_t* global_ranks;  ///< the ranks' numbers among all that the caller knows, by rank, for sentences: "rank 1
                                ///< (global 5, …)". Read during the call. NULL: not said, and what is made from another
                                ///< communicator goes by the parent's. Not for a split, which always does
} tutti_config;
#define TUTTI_CONFIG_INIT \
  {sizeof(tutti_config), 0, NULL, NULL, NULL, NULL, NULL, 0, 0, 0, 0, NULL, NULL, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, 0, NULL}

typedef enum tutti_memory_kind {
  TUTTI_MEMORY_AUTO = 0,
  TUTTI_MEMORY_HOST = 1,
  TUTTI_MEMORY_CUDA = 2,                 ///< a device's
  TUTTI_MEMORY_MANAGED = 3,              ///< CUDA's, of host and device at once; for tutti_memory_alloc_kind alone
  TUTTI_MEMORY_KIND_LIMIT = 0x7fffffff,  ///< no kind: as TUTTI_TYPE_LIMIT
} tutti_memory_kind;

typedef enum tutti_comm_state_kind {
  TUTTI_COMM_CREATING = 0,  ///< non-blocking creation under way
  TUTTI_COMM_READY = 1,
  TUTTI_COMM_FAILED = 2,      ///< every verb returns the first error at once; abort and destroy are legal
  TUTTI_COMM_FINALIZED = 3,   ///< tutti_comm_finalize has completed
  TUTTI_COMM_FINALIZING = 4,  ///< it is under way
} tutti_comm_state_kind;

/// One rank that is to blame for an error.
typedef struct tutti_guilty {
  int32_t rank;
  int32_t pid;
  char host[64];
  uint64_t last_operation;       ///< number of its last completed operation, UINT64_MAX where nobody knows
  char last_operation_kind[24];  ///< "all_reduce", …; empty where nobody knows
} tutti_guilty;

/// A copy of the first error of a communicator, or of this thread's last failed call without one.
typedef struct tutti_error {
  size_t size;  ///< sizeof(tutti_error), set by the caller
  tutti_status status;
  int32_t system_error;  ///< errno, or 0
  char message[768];     ///< one sentence: who, what, limit
  char remedy[256];      ///< what to do about it; may be empty
  uint64_t operation;    ///< its number in the communicator (of a mismatch: the first that differs), UINT64_MAX if none
  char operation_kind[24];
  uint64_t limit_ns;      ///< the deadline that passed, or 0
  uint32_t guilty_count;  ///< how many ranks are to blame, also where more than fit below
  tutti_guilty guilty[8];
} tutti_error;

/// The library's version, major * 10000 + minor * 100 + patch. Thread safe, never fails.
TUTTI_API int tutti_version(void);

/// A short English name of a status, never NULL, static. Thread safe.
TUTTI_API const char* tutti_status_string(tutti_status status);

/// Bytes of one element, 0 for a type that does not exist. Thread safe.
TUTTI_API size_t tutti_type_size(tutti_type type);

/// Copies an error into `error` (its size set): the one by which `comm` has failed; with NULL, that of this thread's last
/// failed call. A call that was only refused (TUTTI_INVALID_ARGUMENT, TUTTI_INVALID_USAGE, TUTTI_UNSUPPORTED) leaves its
/// communicator sound: ask for its sentence with NULL.
/// Returns TUTTI_SUCCESS, also where there is no error (its status is then TUTTI_SUCCESS); TUTTI_INVALID_ARGUMENT for
/// a NULL or unsized `error`. Thread safe; legal in every state of the communicator.
TUTTI_API tutti_status tutti_error_get(const tutti_comm* comm, tutti_error* error);

/// One setting of the library, as the environment has it: what `tutti-doctor --settings` lists. Text that is longer than
/// its place is cut.
typedef struct tutti_setting {
  size_t size;         ///< sizeof(tutti_setting), set by the caller
  char name[40];       ///< "TUTTI_LANES"
  char type[16];       ///< "integer", "duration", …
  char form[128];      ///< what a value looks like, one phrase
  char fallback[128];  ///< the default
  char value[512];     ///< in force; "(set)" for a secret that is set, as given where malformed
  char origin[16];     ///< "default" or "environment"
  char help[256];      ///< one sentence
} tutti_setting;
/// Copies setting `index`, from 0 on, into `setting` (its size set). TUTTI_INVALID_ARGUMENT: there are not so many, or
/// `setting` is NULL or unsized. Thread safe as long as nobody changes the environment meanwhile.
TUTTI_API tutti_status tutti_setting_get(int index, tutti_setting* setting);

// ---- Identity and life -----------------------------------------------------------------------------------------------

/// Makes an identity for one creation. The first opens a listening socket, with a thread: all ids of this process share
/// them, and they live until the process ends. An id makes one communicator: where it was used, successfully or not,
/// creations with it answer TUTTI_INVALID_USAGE, or the error of the one that failed, at once. That holds for the last
/// 65,536 ids of this process that were used. Make another for the next.
/// Errors: TUTTI_SYSTEM_ERROR (no usable interface, no free port in TUTTI_PORT_RANGE).
TUTTI_API tutti_status tutti_get_unique_id(tutti_unique_id* id);

/// The printable form, and back. `text` holds TUTTI_UNIQUE_ID_TEXT bytes. Errors: TUTTI_INVALID_ARGUMENT for text that
/// is no id (truncated, altered).
TUTTI_API tutti_status tutti_unique_id_to_text(const tutti_unique_id* id, char* text);
TUTTI_API tutti_status tutti_unique_id_from_text(const char* text, tutti_unique_id* id);

/// Joins as `rank` of `ranks`, with an id that one process made and the caller handed to all. Collective over the ranks.
///
/// comm    receives the handle; the caller destroys it. On failure it receives NULL. With config.non_blocking it is
///         there at once, and may be aborted, destroyed, and asked for its rank, size, state and error; all else (verbs,
///         tutti_comm_split, _finalize, _set_timeout, _sequence, _last_choice) answers TUTTI_IN_PROGRESS, and nothing
///         happens, until tutti_comm_state says that creation is over.
/// config  may be NULL; copied.
/// Errors: TUTTI_INVALID_ARGUMENT (rank outside the size, two ranks with the same number, differing sizes, all of them
/// named), TUTTI_TIMEOUT (the ranks missing are named), TUTTI_INVALID_USAGE (an id that was used), TUTTI_REMOTE_ERROR (a
/// rank died, or the id's maker has ended), TUTTI_SYSTEM_ERROR. What fails on one rank is left at the rendezvous, for which
/// that rank takes 3 s at most. All others return the same error, with it as the guilty one. A rank that lacks the
/// descriptors to reach the rendezvous cannot tell: the others wait for it until TUTTI_TIMEOUT.
TUTTI_API tutti_status tutti_comm_create(tutti_comm** comm, int ranks, const tutti_unique_id* id, int rank,
                                         const tutti_config* config);

/// Joins at an address that says where the others are:
///   tcp://host:port     rank 0 listens there; needs TUTTI_SECRET, TUTTI_SECRET_FILE or config.secret, except where host is
///                       the caller's own machine: there a key in a private file of this user's serves instead. host is a
///                       name (all of its addresses are tried), an IPv4 address or an IPv6 address in brackets:
///                         [fe80::1%eth0]  a link-local one has a zone, the name or number of each rank's own interface
///                         0.0.0.0, [::], *  all addresses of rank 0's machine; to the other ranks they mean their own
///   file:///path        a path that all ranks share; rank 0 writes the id there, and removes it once all have joined. A
///                       file that is there already is refused and left alone, unless a Tutti process that has ended left
///                       it
///   env://              what the launcher set: TUTTI_RANK, TUTTI_RANKS and TUTTI_COMM_ID (a printed unique id, or an
///                       address like those above); Open MPI's; PMI's; torchrun's; Slurm's
///   id:TEXT             a printed unique id
/// ranks, rank   -1 for both takes them from the launcher's environment. Otherwise as tutti_comm_create.
TUTTI_API tutti_status tutti_comm_create_address(tutti_comm** comm, const char* address, int ranks, int rank,
                                                 const tutti_config* config);

/// Joins through a bootstrap of the caller's (MPI, PyTorch's store, …). Always blocking, in a group too, since `bootstrap`
/// is called during this call only. Otherwise as tutti_comm_create.
TUTTI_API tutti_status tutti_comm_create_bootstrap(tutti_comm** comm, int ranks, int rank, const tutti_bootstrap* bootstrap,
                                                   const tutti_config* config);

/// Makes `ranks` communicators of one group in this process, comms[r] being rank r, each for a thread of its own.
/// All or none: on failure every comms[r] is NULL. Always blocking: config.non_blocking counts for nothing here.
TUTTI_API tutti_status tutti_comm_create_all(tutti_comm** comms, int ranks, const tutti_config* config);

/// Splits `comm` into groups of equal `color`, ordered by (key, rank). Collective over comm. A negative color belongs to
/// no group and receives NULL. config may be NULL: the parent's. Fields of one that are unset are the parent's, too, its
/// poll hook included; the name and non_blocking are not. A rank that gives up once the split has begun (the parent's poll
/// hook, no memory) makes `comm` fail on all ranks at once.
/// What is split off shares the connections of `comm`, which may be destroyed before it: it takes no thread and one
/// descriptor. Where it has other transports, interfaces, traffic class or connect timeout, it opens its own, of
/// its own descriptors. Communicators may be used by several threads at once, in any order.
/// With config.non_blocking the handle is there at once, as in tutti_comm_create, but its rank and size answer
/// TUTTI_IN_PROGRESS until it is there; a rank without a group returns TUTTI_IN_PROGRESS, too, and takes part beside.
TUTTI_API tutti_status tutti_comm_split(tutti_comm* comm, int color, int key, tutti_comm** out, const tutti_config* config);

/// Makes a communicator of `n` ranks of `comm`: ranks[i] becomes rank i. These alone call, with equal arguments, in no
/// order with what else runs on `comm`; as with MPI_Comm_create_group. tag: tells apart what the same members make at the
/// same time. config as tutti_comm_split's; rank and size are known at once. Errors: TUTTI_INVALID_ARGUMENT (a rank that
/// there is not, or twice, or the caller's not among them), TUTTI_TIMEOUT naming the members that did not call, and what
/// tutti_comm_create says. `comm` stays sound, but where members have called and others have not, the same members need
/// another tag.
TUTTI_API tutti_status tutti_comm_create_members(tutti_comm* comm, const int* ranks, int n, uint64_t tag, tutti_comm** out,
                                                 const tutti_config* config);

/// What sentences and the log call `comm` from now on, on this rank: `name`, copied, as far as 60 bytes. Lines about links
/// keep the name of its creation. TUTTI_INVALID_ARGUMENT for NULL. Thread safe.
TUTTI_API tutti_status tutti_comm_set_name(tutti_comm* comm, const char* name);

/// Completes everything that was enqueued, then takes leave of the peers. Collective over comm. TUTTI_MISMATCH on all ranks
/// where they have not called the same operations. Afterwards only tutti_comm_destroy (and queries) are legal: other calls
/// are TUTTI_INVALID_USAGE, as is this one in an open group. Where config.non_blocking was 2 it returns TUTTI_IN_PROGRESS,
/// and tutti_comm_state says when it is over, or has failed.
TUTTI_API tutti_status tutti_comm_finalize(tutti_comm* comm);

/// Frees the handle. Operations that run are completed first, within the operation timeout, and aborted where they outlast
/// it; those still behind others on a queue are never started, and complete with TUTTI_ABORTED in their turn. Not
/// collective: peers read that this rank left. Logs a warning where peers are known to have called other operations than
/// this rank, and no error has told it. NULL is allowed. No other call on `comm` may be under way or follow.
/// TUTTI_INVALID_USAGE, and nothing happens, while this thread's open group holds operations or splits of it.
TUTTI_API tutti_status tutti_comm_destroy(tutti_comm* comm);

/// Ends whatever runs on `comm`, here and on its peers, which return TUTTI_ABORTED naming this rank. Returns within a
/// second, with a dead peer too. The handle stays until tutti_comm_destroy. Legal from any thread at any time.
TUTTI_API tutti_status tutti_comm_abort(tutti_comm* comm);

/// Size of the group, own rank in it, and where it stands. Thread safe. TUTTI_INVALID_ARGUMENT for NULL; rank and size
/// are known from the start of a non-blocking creation, but for a split: TUTTI_IN_PROGRESS, or the error that it ended
/// with.
TUTTI_API tutti_status tutti_comm_size(const tutti_comm* comm, int* ranks);
TUTTI_API tutti_status tutti_comm_rank(const tutti_comm* comm, int* rank);
TUTTI_API tutti_status tutti_comm_state(const tutti_comm* comm, tutti_comm_state_kind* state);

/// What operations on `comm` wait at most, from now on. 0 restores the configured value. Thread safe.
TUTTI_API tutti_status tutti_comm_set_timeout(tutti_comm* comm, uint64_t timeout_ns);

/// Number of the next collective operation. Thread safe.
TUTTI_API tutti_status tutti_comm_sequence(const tutti_comm* comm, uint64_t* sequence);

/// What carried the last collective and by which algorithm, for reports: the names are static or live as long as comm.
typedef struct tutti_comm_choice {
  size_t size;  ///< sizeof(tutti_comm_choice), set by the caller
  const char* algorithm;
  const char* transport;  ///< "shm", "tcp", "shm+tcp", …; "none" for a group of one
  /// The dearest links between ranks, as tuning tables name them: "same_numa", "same_machine", "other_machine" or
  /// "other_rack"; "self" for a group of one.
  const char* links;
} tutti_comm_choice;
TUTTI_API tutti_status tutti_comm_last_choice(const tutti_comm* comm, tutti_comm_choice* choice);

/// What a communicator takes of memory at this moment, beside what its callers pass. Endpoints, which communicators that
/// are made from each other share, and plans are not counted.
typedef struct tutti_memory_use {
  size_t size;             ///< sizeof(tutti_memory_use), set by the caller
  uint64_t link_bytes;     ///< host memory: room for messages, on links from others
  uint64_t message_bytes;  ///< host memory: messages that have come, and that no receive has taken
  uint64_t buffer_bytes;   ///< host memory: what operations are packed and folded in
  uint64_t device_bytes;   ///< of this rank's device, in whole granules of the driver's: all that the communicator's ranks
                           ///< there take together
} tutti_memory_use;
/// Thread safe; waits for nobody. Errors: TUTTI_INVALID_ARGUMENT, TUTTI_IN_PROGRESS (creation under way).
TUTTI_API tutti_status tutti_comm_memory(const tutti_comm* comm, tutti_memory_use* use);

// ---- Collectives -----------------------------------------------------------------------------------------------------
//
// Common to all: `send` and `recv` belong to the operation until it has completed. Counts are in elements, may be 0, may
// exceed 2^31, and are equal on all ranks. Calls that differ between ranks are TUTTI_MISMATCH on all ranks. The error names
// the first operation that differs and both calls, also where a rank has left or died since both had called it. A rank that
// died before the others called reads as dead, as there is nothing to compare yet. A call that was done before this showed
// has returned success; with a count of 0 it waits for nobody. Then the next operation, tutti_comm_split or
// tutti_comm_finalize returns the mismatch, and tutti_comm_destroy logs a warning. Each rank remembers its last 127 changes
// of call. What differed before is told without its number; ranks that are further apart are not compared.
//
// `stream` and `call` as above; call may be NULL. Thread safe: calls from several threads on one communicator are ordered
// by entry. Returns TUTTI_SUCCESS; TUTTI_INVALID_ARGUMENT or TUTTI_UNSUPPORTED (nothing was sent); TUTTI_TIMEOUT,
// TUTTI_REMOTE_ERROR, TUTTI_MISMATCH, TUTTI_ABORTED (`send` is intact unless in place, `recv` is undefined; the
// communicator has failed, and tutti_error_get says who and why). Buffers may not overlap except as "in place" says.
//
// Device memory. A call is a device's where `stream` is a CUDA stream, or a buffer that this rank uses is device or managed
// memory. TUTTI_MEMORY says so for all calls, and spares the question to the driver (half a microsecond a buffer, once
// libcuda was loaded). A communicator that is older than the driver's loading notices it at a call of a new shape or on a
// CUDA stream. Set TUTTI_MEMORY where neither comes first. All ranks make such calls alike, and are threads of one process.
// Other processes, sends and receives, and device memory beside pageable memory come later (TUTTI_UNSUPPORTED). A rank's
// device is config.device, else the one that is current in its first such call. Buffers lie on that device, or are managed
// or pinned; else TUTTI_INVALID_ARGUMENT. Without a driver of R525 or later, or without tutti/libtutti_kernels.so,
// TUTTI_UNSUPPORTED.
//
// A blocking or queued call runs on a stream of the communicator's own: what was enqueued on the buffers before is over. On
// a CUDA stream the call returns once it is enqueued there. Its failure is told by call.work; the stream goes on. The next
// verb and tutti_error_get tell it too, though it may take them some milliseconds from the stream's end. So who reads
// `recv` behind the stream alone may read what a failed call left. Several ranks may share a device. Then a call returns
// when all of them have called. A communicator's first device call returns when all its ranks have called. So a thread that
// has several ranks calls between tutti_group_start and tutti_group_end. What a call of a new shape needs is made first,
// which may wait for what the device does. The deadline counts from when the operation begins on the device.
//
// In a group each stream keeps the order of its calls, of whatever communicators. So a call may wait there for the launch
// of one of another communicator before it. A blocking call comes behind those on CUDA streams of its communicator
// (TUTTI_INVALID_USAGE).
//
// A call on a stream that is captured becomes a part of the graph, which keeps all that it uses. Ranks that share a device
// are captured within one group, on streams of one capture. Graphs are replayed on all ranks in the same order, and one
// graph not twice at a time. Once the communicator was destroyed, or has failed, replays end at once and leave `recv`
// undefined. call.work is refused there (TUTTI_INVALID_USAGE).

/// Folds every rank's `send` with `op` into every rank's `recv`. count elements each. In place: recv == send.
TUTTI_API tutti_status tutti_all_reduce(const void* send, void* recv, size_t count, tutti_type type, tutti_op op,
                                        tutti_comm* comm, tutti_stream stream, const tutti_call* call);

/// Folds every rank's `send` with `op` into root's `recv`; recv is ignored elsewhere. In place: recv == send.
TUTTI_API tutti_status tutti_reduce(const void* send, void* recv, size_t count, tutti_type type, tutti_op op, int root,
                                    tutti_comm* comm, tutti_stream stream, const tutti_call* call);

/// Copies root's `send` into every rank's `recv`; send is ignored elsewhere. In place: recv == send.
TUTTI_API tutti_status tutti_broadcast(const void* send, void* recv, size_t count, tutti_type type, int root,
                                       tutti_comm* comm, tutti_stream stream, const tutti_call* call);

/// Puts rank r's `send` (send_count elements) at recv + r * send_count, on every rank. In place: send is that very place.
TUTTI_API tutti_status tutti_all_gather(const void* send, void* recv, size_t send_count, tutti_type type, tutti_comm* comm,
                                        tutti_stream stream, const tutti_call* call);

/// Folds block r (recv_count elements at send + r * recv_count) of every rank into rank r's `recv`. In place: recv is
/// the own block of send.
TUTTI_API tutti_status tutti_reduce_scatter(const void* send, void* recv, size_t recv_count, tutti_type type, tutti_op op,
                                            tutti_comm* comm, tutti_stream stream, const tutti_call* call);

/// Sends block j of `send` to rank j, which puts it into block i of its `recv`, i being the sender. count elements a
/// block. In place: recv == send.
TUTTI_API tutti_status tutti_all_to_all(const void* send, void* recv, size_t count, tutti_type type, tutti_comm* comm,
                                        tutti_stream stream, const tutti_call* call);

/// Puts rank r's `send` at root's recv + r * send_count; recv is ignored elsewhere. In place: root's send is that place.
TUTTI_API tutti_status tutti_gather(const void* send, void* recv, size_t send_count, tutti_type type, int root,
                                    tutti_comm* comm, tutti_stream stream, const tutti_call* call);

/// Puts root's send + r * recv_count into rank r's `recv`; send is ignored elsewhere. In place: root's recv is its block.
TUTTI_API tutti_status tutti_scatter(const void* send, void* recv, size_t recv_count, tutti_type type, int root,
                                     tutti_comm* comm, tutti_stream stream, const tutti_call* call);

/// Returns (or completes) on no rank before every rank has entered.
TUTTI_API tutti_status tutti_barrier(tutti_comm* comm, tutti_stream stream, const tutti_call* call);

/// One rank's share in a v-variant: displacements and lists of tensors are one form.
typedef struct tutti_block {
  void* ptr;
  uint64_t count;  ///< elements
} tutti_block;

/// As the verbs without _v, with blocks of any lengths, anywhere in memory. Lists hold one for each rank, in rank order.
/// They are copied: they may go once the call returns, and what they point to stays the operation's until it has completed.
/// A block of a count of 0 may have a NULL pointer. Blocks may not overlap. In place, a block begins where the one begins
/// that it becomes: for all_to_all_v send_blocks[j] where recv_blocks[j] does, else as the verb without _v says.
///
/// all_gather_v, reduce_scatter_v: all counts are equal on every rank, else TUTTI_MISMATCH. all_to_all_v: this rank i's
/// send_blocks[j].count equals rank j's recv_blocks[i].count. gather_v, scatter_v: lists are read on the root alone, whose
/// counts equal the others' own. Ends of a block that differ, and are both longer than 0, are TUTTI_MISMATCH. Where one end
/// is 0 nothing is sent, or what was sent is not taken: the call may succeed, or wait for its deadline. A later call may
/// then fail, with a sentence that points back.
///
/// A rank's block for itself has one count, else TUTTI_INVALID_ARGUMENT. Registered memory is memory as any other here. A
/// rank whose blocks are all empty, where others' are device memory, passes a stream or the addresses of empty ones there.
TUTTI_API tutti_status tutti_all_gather_v(const void* send, size_t send_count, const tutti_block* recv_blocks,
                                          tutti_type type, tutti_comm* comm, tutti_stream stream, const tutti_call* call);
TUTTI_API tutti_status tutti_reduce_scatter_v(const tutti_block* send_blocks, void* recv, size_t recv_count,
                                              tutti_type type, tutti_op op, tutti_comm* comm, tutti_stream stream,
                                              const tutti_call* call);
TUTTI_API tutti_status tutti_all_to_all_v(const tutti_block* send_blocks, const tutti_block* recv_blocks, tutti_type type,
                                          tutti_comm* comm, tutti_stream stream, const tutti_call* call);
TUTTI_API tutti_status tutti_gather_v(const void* send, size_t send_count, const tutti_block* recv_blocks, tutti_type type,
                                      int root, tutti_comm* comm, tutti_stream stream, const tutti_call* call);
TUTTI_API tutti_status tutti_scatter_v(const tutti_block* send_blocks, void* recv, size_t recv_count, tutti_type type,
                                       int root, tutti_comm* comm, tutti_stream stream, const tutti_call* call);

/// As tutti_all_reduce, of buffers in pieces: the blocks of `send_blocks`, one behind the other, are one buffer, and those
/// of `recv_blocks` another one of as many elements. Many small tensors so go as one message. The totals are equal on all
/// ranks, the blocks need not be. In place: send_blocks is NULL, and send_count 0. With call.canonical = n the send blocks
/// are this rank's n / ranks operands, each as long as all of recv_blocks, wherever in memory they lie. Lists are copied.
/// Blocks may be empty, and not overlap. Host memory is packed, up to a MiB at a time: several operations, which
/// tutti_comm_sequence counts. With canonical it is packed at once, and the communicator keeps the room. Device memory is
/// used where it lies, by one. A rank's blocks are all of one of the two.
TUTTI_API tutti_status tutti_all_reduce_v(const tutti_block* send_blocks, size_t send_count, const tutti_block* recv_blocks,
                                          size_t recv_count, tutti_type type, tutti_op op, tutti_comm* comm,
                                          tutti_stream stream, const tutti_call* call);

/// Makes a user-defined operator, for elements of `element_bytes` bytes (1 to 1024). Calls pass it in the place of
/// a tutti_op, with a type of that size, as TUTTI_OPAQUE + n. It has to be associative. Where it does not commute
/// (commutative 0), operands are folded in the order of ranks. Host memory alone.
///
/// fold: sets inout[i] to in[i] ∘ inout[i] for each of `count` elements, of which `in` are the lower ranks'. It is called
/// in the thread that runs the operation, for parts of the buffers. That may be a thread that waits for a queue. Be quick:
/// communicators that were made from one another wait for it, beyond their deadlines. Both arrays are aligned to 16 bytes.
/// In a call that fails it may be given elements that nobody sent. It must not call Tutti, and no C++ exception may leave
/// it. `fold` and `ctx` are used until calls that were made with the operator have ended.
///
/// The value is this communicator's on this rank; ranks need not have the same one. Errors: TUTTI_INVALID_ARGUMENT. Thread
/// safe. After MPI_Op_create.
TUTTI_API tutti_status tutti_op_create_user(tutti_op* op,
                                            void (*fold)(void* ctx, const void* in, void* inout, uint64_t count), void* ctx,
                                            int commutative, size_t element_bytes, tutti_comm* comm);
/// Makes a sum whose operands are multiplied first: each rank's by its own `scalar`, an element of `type`. The products are
/// rounded to the type, whatever accumulate says of their sum. kind: the scalar's memory. Of AUTO and HOST it is copied; of
/// CUDA it is read as each call runs, and calls are of CUDA memory alone. All ranks of a call on CUDA memory pass such a
/// sum. Errors: TUTTI_INVALID_ARGUMENT (no type that can be scaled). Thread safe. After ncclRedOpCreatePreMulSum.
TUTTI_API tutti_status tutti_op_create_pre_mul_sum(tutti_op* op, const void* scalar, tutti_type type,
                                                   tutti_memory_kind kind, tutti_comm* comm);
/// Legal once the calls that use it have been enqueued. Errors: TUTTI_INVALID_ARGUMENT (no such operator). Thread safe.
TUTTI_API tutti_status tutti_op_destroy(tutti_op op, tutti_comm* comm);

// ---- Point to point --------------------------------------------------------------------------------------------------

/// Sends `count` elements to `peer`; matches the receive of (this rank, call.tag) there, in order among equals. Returns
/// when `send` may be used again; do not rely on whether that is before or after a receive matches. A message that has not
/// been received when its receiver is finalized is lost. Progresses independently of collectives and queues. Errors as the
/// collectives', and TUTTI_INVALID_ARGUMENT for a peer outside the group. A rank may send to itself where the receive is
/// posted already.
TUTTI_API tutti_status tutti_send(const void* send, size_t count, tutti_type type, int peer, tutti_comm* comm,
                                  tutti_stream stream, const tutti_call* call);

/// Receives at most `count` elements from `peer` (or TUTTI_ANY_SOURCE) with call.tag; tutti_work_info tells the source and
/// the count of a shorter message. A message is its bytes: the sender's type may be another, if the bytes are whole
/// elements of the type given here. A longer message, and one that ends within an element, is TUTTI_MISMATCH. Then `recv`
/// is as it was, the error names both sides' bytes and types, and the communicator fails on all ranks. A sender whose send
/// has ended reads the error from its next call.
TUTTI_API tutti_status tutti_recv(void* recv, size_t count, tutti_type type, int peer, tutti_comm* comm,
                                  tutti_stream stream, const tutti_call* call);

// ---- Groups, queues, work --------------------------------------------------------------------------------------------

/// Calls between start and end, on this thread, are issued together by the end: sends and receives among them progress
/// at once. Nests; the outermost end issues.
///
/// call      of the outermost end: may hold one work for the whole group, and a timeout for operations without one of
///           their own. A work in an inner end's is TUTTI_INVALID_USAGE.
/// Errors    the end returns the first of the group. Where a call inside failed, or the end is refused, none of the group's
///           operations run, and their works complete with that error. A verb that answered TUTTI_IN_PROGRESS, since its
///           communicator is still being created, is such a failure: TUTTI_INVALID_USAGE at the end.
/// Fork      a group that is open when its process forks is the parent's: in the child nothing of it runs, and its end
///           is TUTTI_INVALID_USAGE.
/// Creation  and split are held back too (blocking ones; those of tutti_comm_create_all and _bootstrap run at once): the
///           end makes them together, before any operation, so that one thread may create several ranks. Their `comm` is
///           NULL until then, must remain valid, and stays NULL in all of them where one fails. A split that fails with
///           them once it has begun makes its parent fail. Where the group fails before, the peers of its creations are
///           told, those of its splits are not.
/// Finalize  cannot be held back: TUTTI_INVALID_USAGE.
/// Fusion    where the outermost end's call.fuse is 1, collectives of one communicator that follow each other there, on one
///           stream, with equal types and operators, are one operation: all_reduces of at most 16 KiB, up to 64 KiB of
///           them, are a tutti_all_reduce_v, and broadcasts with different roots a tutti_all_gather_v. A stream is all
///           that blocks, one queue, or one cudaStream_t by the same handle. Calls of host and of device memory stay
///           apart. See tutti_call.
///           The operation has the place of its first call on the stream. So the others may come before what the group has
///           of other communicators between them. Each call's work ends with the operation's outcome, and tells its own
///           kind, bytes and user_tag. Errors tell the first call's name, and user_tag 0. The operation's timeout is the
///           shortest that its calls have. All their buffers belong to it until it has completed.
TUTTI_API tutti_status tutti_group_start(void);
TUTTI_API tutti_status tutti_group_end(const tutti_call* call);
/// Ends the outermost group and runs nothing of it. *ns: what its operations are expected to take, by the terms that
/// algorithms are chosen by: a communicator's collectives one after the other, its messages beside them, communicators side
/// by side. Works of the group end with TUTTI_ABORTED. Not collective. Errors: TUTTI_INVALID_USAGE (no open group, an inner
/// one, communicators that were to be made), and what a call of the group was refused with. After ncclGroupSimulateEnd.
TUTTI_API tutti_status tutti_group_estimate(uint64_t* ns);

/// A queue with a thread of its own that runs operations behind the caller's back, in order for collectives. A thread
/// that waits for a collective, or for the queue, runs what has not begun yet up to there. It does so where its wait has
/// no limit and the communicator no poll hook, as what it runs it cannot leave. Destroy completes what was enqueued;
/// TUTTI_INVALID_USAGE, and nothing happens, while this thread's open group holds operations on it; NULL is allowed. A
/// forked child may only destroy its parent's queues: any other use is TUTTI_INVALID_USAGE. Thread safe.
TUTTI_API tutti_status tutti_queue_create(tutti_queue** queue);
TUTTI_API tutti_status tutti_queue_destroy(tutti_queue* queue);
/// Returns when all that was enqueued before (transfers included) has completed, with its first error that no wait for the
/// queue has returned yet, that of a transfer that was taken back too. TUTTI_IN_PROGRESS after timeout_ns (0: no limit but
/// the operations' own), TUTTI_ABORTED where a communicator's poll hook ended the wait: after either everything goes on,
/// for a later wait. Without a limit, in a function of the queue's own: TUTTI_INVALID_USAGE; so is its destruction there.
TUTTI_API tutti_status tutti_queue_wait(tutti_queue* queue, uint64_t timeout_ns);
/// Runs `fn` on the queue's thread when all collectives enqueued before have ended, and before any enqueued later: for
/// copies that go with them. No lock is held. It may call Tutti, but neither waits for this queue nor destroys it; it has
/// no deadline. `work` receives a handle that ends behind it, which the caller must release, and may be NULL. Errors:
/// TUTTI_INVALID_ARGUMENT for NULL, TUTTI_INVALID_USAGE in an open group, whose operations run at its end. A C++ exception
/// that leaves `fn` is TUTTI_INTERNAL_ERROR of the work and of tutti_queue_wait.
TUTTI_API tutti_status tutti_queue_call(tutti_queue* queue, void (*fn)(void* ctx), void* ctx, tutti_work** work);

// In which order works end. Notices and callbacks come in the same order.
//
// Queue     collectives and functions of one queue end in the order in which they were enqueued, whatever their
//           communicators.
// CUDA      collectives of one communicator on one stream likewise. Those of several communicators may end in any order,
//           as each looks for its own. A call of no elements ends at once. So does one that could not be launched.
// Blocking  those of one communicator in a group end in the order of calls. Communicators run side by side there.
// Fusion    calls that are one operation end in the order of calls, before what comes next on their stream.
// Transfers sends and receives may end in any order, and before collectives that their queue has before them.
// Streams   works of different streams end in no order, though a communicator's operations run in the order of entry.
// Groups    a whole group's work ends behind all of its operations. Where a group's end fails, what was not enqueued ends
//           at once.

/// What is known of an operation.
typedef struct tutti_work_details {
  size_t size;  ///< sizeof(tutti_work_details), set by the caller
  tutti_status status;
  uint64_t sequence;  ///< a collective's number in its communicator; 0 for transfers and whole groups, which have none
  int32_t source;     ///< rank that a receive matched, -1 otherwise
  uint64_t received_count;  ///< elements
  uint64_t start_ns;        ///< CLOCK_MONOTONIC; 0 if not started. Of a whole group: when it was issued
  uint64_t end_ns;          ///< 0 if not completed
  const char* kind;         ///< "all_reduce", "send", …; "" of a whole group and of tutti_queue_call. Static
  char algorithm[32];       ///< by which a collective ran, once it has succeeded; else ""
  uint64_t bytes;           ///< of the call's count; of a v-variant, of the blocks that this rank sends
  uint64_t user_tag;        ///< as in tutti_call
} tutti_work_details;

/// TUTTI_IN_PROGRESS, or what the operation came to. Never blocks. Thread safe, as all on works. A forked child may only
/// release its parent's works: any other use is TUTTI_INVALID_USAGE.
TUTTI_API tutti_status tutti_work_test(tutti_work* work);
/// Waits for completion; TUTTI_IN_PROGRESS after timeout_ns leaves the operation running, and so does TUTTI_ABORTED where
/// the communicator's poll hook ended the wait. 0: until the operation's deadline and a few seconds more; while it is
/// behind others on its stream, theirs count.
TUTTI_API tutti_status tutti_work_wait(tutti_work* work, uint64_t timeout_ns);
TUTTI_API tutti_status tutti_work_info(const tutti_work* work, tutti_work_details* info);
/// Takes back a send or a receive that has met no match: it ends with TUTTI_ABORTED, and no other call is concerned.
/// Returns at once. What has met its match, or has ended, goes on as it was; the work's end tells which. A receive ends at
/// once. So does a send of which its receiver has not heard. Else the receiver is asked, and the send ends with its answer.
/// Where the receiver's process makes no progress for transfers, it ends after a tenth of a second; no receive gets it
/// later, but one of up to 64 bytes may. A receive that had met such a send takes the next message that matches. That may
/// be later than what receives posted after it have taken meanwhile. Errors: TUTTI_INVALID_USAGE (a collective, a whole
/// group, tutti_queue_call).
TUTTI_API tutti_status tutti_work_cancel(tutti_work* work);
/// `fn` is called exactly once, on a thread of the library's, with no lock held, never inside this or the posting call. All
/// callbacks of a process share that thread, one after the other: one that blocks holds up the others.
TUTTI_API tutti_status tutti_work_on_complete(tutti_work* work, void (*fn)(void* ctx, tutti_status status), void* ctx);
/// As tutti_work_on_complete, but `fn` is called by whichever thread ends the operation. That is perhaps the caller's,
/// within the call that posts or waits, and within this one where the operation has ended. A lock of the library's may be
/// held. So `fn` is short, calls nothing of Tutti's, throws nothing, and takes no lock that a thread within Tutti may hold.
/// Waiters may return before it is called.
TUTTI_API tutti_status tutti_work_notify(tutti_work* work, void (*fn)(void* ctx, tutti_status status), void* ctx);
/// Gives the handle back; the operation goes on. NULL is allowed.
TUTTI_API void tutti_work_release(tutti_work* work);

// ---- Memory ----------------------------------------------------------------------------------------------------------

/// Host memory: page-aligned, zeroed, shared with children that are forked later. Peers on this machine may read and write
/// it in place, so that operations on it move large messages without a copy; each rank may use such memory or any other.
/// Freed by tutti_memory_free alone (NULL is allowed), when no operation uses it any more, by each process that has it.
/// Errors: TUTTI_SYSTEM_ERROR. Thread safe.
///
/// Blocks of up to 16 MiB share files of 64 MiB. Each file holds one file descriptor, until all its blocks are freed; a
/// larger block has a file of its own. A process that cannot have such a file (no descriptor, a limit) gets memory that
/// peers do not access. An operation on one block lets this communicator's peers on this machine map its whole file: they
/// can access the file's other blocks, too, including those which only other communicators use.
///
/// A freed block's pages return to the system at once, and later blocks may have its place in the file. A process that was
/// forked while the block was allocated may still use it. Then its pages and its place stay until that file's last block is
/// freed.
///
/// A call that fails returns when no peer writes into this memory any more. A peer that is stopped is waited for a second
/// at most. Then the error names it; the memory must not be used again, but may be freed: no later block gets its place.
TUTTI_API tutti_status tutti_memory_alloc(void** ptr, size_t bytes);
TUTTI_API tutti_status tutti_memory_free(void* ptr);

/// Memory that operations use, registered for as long as it is used: see tutti_memory_register.
typedef struct tutti_registration tutti_registration;

/// Says that operations will use the caller's host memory [memory, memory + bytes) again and again, so that transports may
/// register it once, in the first operation on it, and peers access it from then on. It is for transports that can do so
/// with any memory. shm and tcp cannot, and nothing changes for them: shm has tutti_memory_alloc. Memory of that, and of
/// devices, may be passed and needs nothing. Ranges may overlap. Not collective; other communicators may use it, too.
/// Errors: TUTTI_INVALID_ARGUMENT (NULL, no bytes), as the communicator's. Thread safe.
///
/// Nothing watches the memory: it is given up by tutti_memory_unregister alone. Call that before it is unmapped, and after
/// the operations on it. What a transport pinned of it goes with a communicator's next collective, or its end. NULL is
/// allowed. A forked child may only unregister what its parent registered, which concerns itself alone.
TUTTI_API tutti_status tutti_memory_register(tutti_comm* comm, void* memory, uint64_t bytes,
                                             tutti_registration** registration);
TUTTI_API tutti_status tutti_memory_unregister(tutti_registration* registration);

/// Memory of a kind, freed by tutti_memory_free. Thread safe.
///
/// kind    TUTTI_MEMORY_HOST: as tutti_memory_alloc. TUTTI_MEMORY_CUDA: a device's, which all devices that reach it may
/// use;
///         what it holds is undefined, and whole granules of the driver's (2 MiB) are taken. TUTTI_MEMORY_MANAGED: CUDA's
///         of host and device at once
/// device  CUDA device + 1; 0: the current one. Of host memory: no matter
/// Device memory is freed at once, whatever still uses it. Freeing managed memory may wait for devices. So it is freed once
/// no communicator uses one, at the next call of this function or of tutti_memory_free.
/// Errors: TUTTI_INVALID_ARGUMENT (no such kind or device), TUTTI_UNSUPPORTED (no driver, an old one),
/// TUTTI_UNHANDLED_CUDA_ERROR (no memory left, named with device and bytes), TUTTI_INVALID_USAGE in a forked child.
TUTTI_API tutti_status tutti_memory_alloc_kind(void** ptr, size_t bytes, tutti_memory_kind kind, int32_t device);

#ifdef __cplusplus
}
#endif
#endif  // TUTTI_TUTTI_H_
