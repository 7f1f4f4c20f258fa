#include "transports/shm/link.h"

#include <sys/mman.h>

#include <algorithm>
#include <utility>

#include "src/base/copy.h"
#include "src/tables/units.h"

namespace tutti::shm {

namespace {

// Memory of a link, as far as the messages lie in it that may be under way, from which huge pages pay.
constexpr std::uint64_t kHugeFrom = 4u << 20;

std::string sizes(std::uint64_t slots, std::uint64_t slot_bytes) {
  return std::to_string(slots) + " slots of " + std::to_string(slot_bytes) + " bytes";
}

Packet packet_of(Verb verb, const ShmLink& link) {
  Packet packet;
  packet.message.verb = verb;
  packet.message.channel = link.channel();
  packet.message.serial = link.serial();
  return packet;
}

}  // namespace

ShmLink::ShmLink(Endpoint& endpoint, Peer& peer, std::uint64_t channel, std::uint32_t slots, std::uint64_t slot_bytes)
    : channel_pair_(peer.channel_pair(channel)),
      layout_(LinkLayout::of(slots, slot_bytes)),
      endpoint_(endpoint),
      peer_(peer),
      channel_(channel) {
  if (peer_.stage() != Peer::Stage::kReady) endpoint_.link_waiting(*this);
}

// Also of a link that could not be made: what is derived from this one allocates.
ShmLink::~ShmLink() { endpoint_.link_met(*this); }

void ShmLink::settle(Stage stage) {
  if (stage_ == Stage::kOpening) endpoint_.link_met(*this);
  stage_ = stage;
}

void ShmLink::break_off(std::string why) {
  if (stage_ == Stage::kBroken) return;
  why_ = std::move(why);
  settle(Stage::kBroken);
  on_broken();
}

bool ShmLink::expire(std::uint64_t now) {
  const std::uint64_t limit = endpoint_.connect_timeout_ns();
  if (absence_.look(now, !peer_.connection().is_reached()) < limit || limit == 0) return false;
  if (peer_.connection().is_starved()) {
    break_off("this process has had no descriptor or memory for a connection with " + peer_name() + " for " +
              duration_text(limit) + ". " + kShortageRemedy);
    return true;
  }
  std::string why = peer_name() + " could not be reached over shared memory within " + duration_text(limit);
  if (const std::string trouble = peer_.connection().trouble(); !trouble.empty()) why += " (" + trouble + ")";
  break_off(std::move(why));
  return true;
}

void ShmLink::attach(Mapping mapping) {
  mapping_ = std::move(mapping);
  if (layout_.payload_offset + layout_.stride * layout_.slots >= kHugeFrom) {
    // Where the system does not allow it, small pages serve as well.
    (void)::madvise(mapping_.data(), mapping_.size(), MADV_HUGEPAGE);
  }
  control_ = static_cast<LinkControl*>(mapping_.data());
  peer_page_ = peer_.page();
  at_ = headers_begin();
  headers_end_ = headers_begin() + kHeaderStride * layout_.headers;
}

std::string ShmLink::differs(const ControlMessage& theirs) const {
  return peer_name() + " opened channel " + std::to_string(channel_) + " with " + sizes(theirs.a, theirs.b) +
         ", this rank with " + sizes(layout_.slots, layout_.slot_bytes);
}

tutti_link_result ShmLink::state(tutti_link_state* state) const {
  if (stage_ == Stage::kOpening) return TUTTI_LINK_NOT_YET;
  if (control_ == nullptr || (stage_ == Stage::kBroken && !failure().empty())) return TUTTI_LINK_BROKEN;
  *state = {};
  state->size = sizeof *state;
  state->capabilities = TUTTI_CAN_OFFER_REGISTERED | TUTTI_CAN_GRANT_REGISTERED | TUTTI_READS_PEER | TUTTI_WRITES_PEER;
  state->slots = layout_.slots;
  state->slot_bytes = layout_.slot_bytes;
  state->arrived = at_ + offsetof(SlotHeader, sequence);
  state->reusable = reusable();
  state->peer_yielding = &peer_.page()->yielding;
  return TUTTI_LINK_OK;
}

// ---- Sender.

SenderLink::SenderLink(Endpoint& endpoint, Peer& peer, std::uint64_t channel, std::uint32_t slots, std::uint64_t slot_bytes)
    : ShmLink(endpoint, peer, channel, slots, slot_bytes),
      credit_(layout_),
      slots_(channel_pair_, credit_, layout_),
      writing_(layout_, slots_) {
  serial_ = endpoint.next_serial();
  peer.add(*this);
  channel_pair_.peer_credit = {serial_, 0};
}

SenderLink::~SenderLink() {
  if (granted_ != nullptr) finish_put();
  // Acquire: the receiver's reads of what it has released came before, and so did what it kept.
  const auto all_released = [&] { return shared(control_->consumed).load(std::memory_order_acquire) == next_; };
  if (control_ != nullptr) slots_.close(all_released(), std::move(mapping_));
  if (channel_pair_.peer_credit.serial == serial_) channel_pair_.peer_credit = {};
  settle(Stage::kBroken);
  peer_.remove(*this);
}

Status SenderLink::begin() {
  if (peer_.stage() == Peer::Stage::kGone) {
    break_off(peer_.why_gone());
    return {};
  }
  Result<UniqueFd> file = create_memory("tutti-link", layout_.total);
  if (!file.ok()) return file.status();
  Result<Mapping> mapping = map_memory(file->get(), 0, layout_.total, true);
  if (!mapping.ok()) return mapping.status();
  attach(std::move(*mapping));
  slots_.open(serial_, memory());
  Packet packet = packet_of(Verb::kLink, *this);
  packet.message.a = layout_.slots;
  packet.message.b = layout_.slot_bytes;
  packet.descriptors[0] = std::make_shared<const UniqueFd>(std::move(*file));
  peer_.post(std::move(packet));
  return {};
}

void SenderLink::accepted() {
  if (stage_ != Stage::kOpening) return;
  peer_page_ = peer_.page();
  set_limits();
  settle(Stage::kOpen);
}

bool SenderLink::find_credit(const std::uint64_t& limit) {
  if (stage_ != Stage::kOpen) return false;
  // Acquire: the receiver's reads of the slots come before our writing them again.
  const std::uint64_t consumed = shared(control_->consumed).load(std::memory_order_acquire);
  if (!credit_.look_up(consumed, next_)) {
    break_off(peer_name() + " counts " + std::to_string(consumed) + " messages of channel " + std::to_string(channel_) +
              " as released, of " + std::to_string(next_) + " sent: its memory is damaged");
    return false;
  }
  set_limits();
  slots_.find_kept();  // in the same line
  return next_ < limit;
}

tutti_link_result SenderLink::miss_slots() {
  return broken(peer_name() + " has kept all slots of channel " + std::to_string(channel_) +
                ", though it has released their messages: its memory is damaged");
}

tutti_link_result SenderLink::reserve_large(std::uint64_t bytes, std::uint64_t fingerprint, tutti_room& room) {
  if (granted_ == nullptr) granted_at_ = take_grant(bytes, fingerprint);
  if (granted_ != nullptr) {
    room = {granted_at_, TUTTI_ROOM_GRANTED};
    return TUTTI_LINK_OK;
  }
  if (stage_ != Stage::kOpen || bytes > layout_.slot_bytes) return no_credit();
  learn();
  const Placement at = writing_.choose(next_, bytes);
  if (at.is_nowhere()) return miss_slots();
  room = {slots_.address(at), writing_.streams(bytes) ? std::uint32_t{TUTTI_ROOM_NON_TEMPORAL} : 0u};
  return TUTTI_LINK_OK;
}

tutti_link_result SenderLink::send_large(const void* source, std::uint64_t bytes, std::uint64_t fingerprint) {
  tutti_room room;
  const tutti_link_result result = reserve(bytes, fingerprint, room);
  if (result != TUTTI_LINK_OK) return result;
  copy_memory(room.data, source, bytes);
  return commit(bytes, fingerprint);
}

/// As commit, of what `writing_` placed.
tutti_link_result SenderLink::commit_placed(std::uint64_t bytes, std::uint64_t fingerprint) {
  const WrittenMessage written = writing_.observe(bytes);
  if (written.place.is_nowhere()) [[unlikely]]
    return miss_slots();
  if (written.compares) writing_.compare(bytes, *control_, rotation_span());
  SlotHeader& h = header();
  h.where.placement = written.place;
  credit(h);
  publish(h, pack(bytes, written.timed ? Kind::kTimed : Kind::kSlot), fingerprint);
  return TUTTI_LINK_OK;
}

/// Twice what a core's own cache holds, or the lines would still be there. Links that are opened together share four times
/// that, so that a rank's memory does not grow with its peers.
std::uint64_t SenderLink::rotation_span() const {
  const std::uint64_t cache = endpoint_.core_cache_bytes();
  return std::min(2 * cache, 8 * cache / std::max<std::uint64_t>(1, endpoint_.links() / 2));
}

unsigned char* SenderLink::take_grant(std::uint64_t bytes, std::uint64_t fingerprint) {
  GrantEntry& entry = control_->grants[next_ % kGrants];
  std::uint64_t state = grant_state(next_, kGranted);
  // Acquire: pairs with the receiver's release behind the entry's other fields.
  if (shared(entry.state).load(std::memory_order_acquire) != state) return nullptr;
  const Reference target = entry.target;
  if (entry.bytes != bytes || entry.fingerprint != fingerprint) return nullptr;
  PeerRegion* region = peer_.region(target.region);
  // Its announcement may still be waiting in the socket.
  if (region == nullptr && peer_.advance()) region = peer_.region(target.region);
  if (region == nullptr || stage_ != Stage::kOpen) return nullptr;
  std::string why;
  unsigned char* const address = region->at(target.offset, bytes, true, why);
  if (address == nullptr) {
    endpoint_.log(3, "shm: a grant of " + peer_name() + " was not used: " + why);
    return nullptr;
  }
  // The receiver may take its grant back at this very moment: one of us wins. Acquire-release: whoever reads kTaken knows
  // that we may write from here on; relaxed on failure, where nothing is done.
  if (!shared(entry.state)
           .compare_exchange_strong(state, grant_state(next_, kTaken), std::memory_order_acq_rel,
                                    std::memory_order_relaxed)) {
    return nullptr;
  }
  region->hold();
  granted_ = region;
  granted_at_ = address;
  return address;
}

// Also where the link is given up between reserve and commit: then the receiver learns so that we write no more.
void SenderLink::finish_put() {
  // Release: our stores to the granted memory come before the receiver may believe that there will be no more.
  shared(control_->grants[next_ % kGrants].state).store(grant_state(next_, kRevoked), std::memory_order_release);
  granted_->drop();
  if (granted_->forgotten) peer_.sweep_regions();
  granted_ = nullptr;
  peer_.put_ended();
}

tutti_link_result SenderLink::offer(OwnRegion* region, const void* source, std::uint64_t bytes, std::uint64_t fingerprint) {
  if (stage_ == Stage::kBroken) return TUTTI_LINK_BROKEN;
  if (next_ >= limit_ && !find_credit(limit_)) return nothing();
  if (region == nullptr || !region->holds(source, bytes))
    return broken("memory was offered on channel " + std::to_string(channel_) + " that is not in a registered region");
  // The receiver must be able to find the region when it finds the message.
  if (!endpoint_.announce(*region, peer_)) return TUTTI_LINK_NOT_YET;
  if (stage_ != Stage::kOpen) return TUTTI_LINK_BROKEN;  // its socket broke just then
  SlotHeader& h = header();
  if (region->told[static_cast<std::size_t>(peer_.rank())] != Told::kRefused) {
    h.where = {{region->id, region->offset_of(source)}, {}, channel_pair_.our_credit};
    publish(h, pack(bytes, Kind::kPull), fingerprint);
    return TUTTI_LINK_OK;
  }
  if (!fits(bytes)) return cannot_copy(bytes);
  const Placement at = slots_.next();
  if (at.is_nowhere()) return miss_slots();
  copy_memory(slots_.address(at), source, bytes);
  h.where = {{}, slots_.send(next_, bytes), channel_pair_.our_credit};
  publish(h, pack(bytes, Kind::kSlot), fingerprint);
  return TUTTI_LINK_OK;
}

void SenderLink::region_refused(std::uint64_t id) {
  if (control_ == nullptr || stage_ != Stage::kOpen) return;
  const OwnRegion* const region = endpoint_.own_region(id);
  // Acquire: as in find_credit. What was released needs nothing any more.
  const std::uint64_t consumed = shared(control_->consumed).load(std::memory_order_acquire);
  for (std::uint64_t n = std::max(consumed, credit_.consumed()); n < next_; ++n) {
    if (resend(n, region, id) != TUTTI_LINK_OK) return;
  }
  wake();
}

/// The receiver, who found no region, looks at the header again and again.
tutti_link_result SenderLink::resend(std::uint64_t message, const OwnRegion* region, std::uint64_t id) {
  SlotHeader& h = *reinterpret_cast<SlotHeader*>(headers_begin() + kHeaderStride * credit_.header_of(message));
  const std::uint64_t size_and_kind = h.size_and_kind;
  const std::uint64_t bytes = size_and_kind & kSizeMask;
  const Reference source = h.where.reference;
  if (kind_of(size_and_kind) != Kind::kPull || source.region != id) return TUTTI_LINK_OK;
  if (region == nullptr || bytes > region->bytes || source.offset > region->bytes - bytes || !fits(bytes))
    return cannot_copy(bytes);
  const Placement at = slots_.send_copy(message, region->base + source.offset, bytes);
  if (at.is_nowhere()) return miss_slots();
  h.where.placement = at;
  // Release: the payload before the word that says where it is. Nobody else writes the word.
  shared(h.size_and_kind).store(pack(bytes, Kind::kSlot) | (size_and_kind & kWrap), std::memory_order_release);
  return TUTTI_LINK_OK;
}

tutti_link_result SenderLink::cannot_copy(std::uint64_t bytes) {
  return broken(peer_name() + " has no free file descriptor for memory of rank " + std::to_string(endpoint_.rank()) +
                ", whose message of " + std::to_string(bytes) + " bytes on channel " + std::to_string(channel_) +
                " is too long for slots; raise its limit of open files (ulimit -n)");
}

tutti_quiesced SenderLink::quiesce() {
  // Sequentially consistent, an exchange: it comes before whatever the caller writes to memory that was offered.
  if (control_ != nullptr) shared(control_->withdrawn).exchange(1, std::memory_order_seq_cst);
  if (granted_ != nullptr) finish_put();
  return TUTTI_QUIESCED;
}

void SenderLink::give_up() {
  static_cast<void>(quiesce());
  peer_.post(packet_of(Verb::kCloseSender, *this));
}

// ---- Receiver.

ReceiverLink::ReceiverLink(Endpoint& endpoint, Peer& peer, std::uint64_t channel, std::uint32_t slots,
                           std::uint64_t slot_bytes)
    : ShmLink(endpoint, peer, channel, slots, slot_bytes), slots_(channel_pair_, layout_) {
  peer.add(*this);
}

ReceiverLink::~ReceiverLink() {
  if (pulled_ != nullptr) drop_pulled();
  if (channel_pair_.our_credit.serial == serial_) channel_pair_.our_credit = {};
  slots_.close(std::move(mapping_));
  settle(Stage::kBroken);
  peer_.remove(*this);
}

Status ReceiverLink::begin() {
  if (peer_.stage() == Peer::Stage::kGone) {
    break_off(peer_.why_gone());
  } else if (std::optional<OfferedLink> link = peer_.take_offered(channel_)) {
    offered(link->message, link->memory);
  }
  return {};
}

void ReceiverLink::offered(const ControlMessage& message, const SharedFd& memory) {
  serial_ = message.serial;
  if (message.a != layout_.slots || message.b != layout_.slot_bytes) {
    Packet packet = packet_of(Verb::kRefuse, *this);
    packet.message.a = layout_.slots;
    packet.message.b = layout_.slot_bytes;
    peer_.post(std::move(packet));
    return break_off(differs(message));
  }
  Result<Mapping> mapping = memory ? map_memory(memory->get(), 0, layout_.total, true)
                                   : Result<Mapping>(Status(TUTTI_REMOTE_ERROR,
                                                            "its memory did not come with it, as where this process has no "
                                                            "free file descriptor (ulimit -n)"));
  if (!mapping.ok()) {
    peer_.post(packet_of(Verb::kCloseReceiver, *this));
    const Error& error = mapping.status().error();
    const std::string whose = "memory of " + peer_name() + "'s, channel " + std::to_string(channel_);
    // What the system refuses is this process's affair, what the peer passed its own.
    return break_off((error.system_error != 0 || !memory ? "this process cannot take " : "cannot take ") + whose + ": " +
                     error.message);
  }
  attach(std::move(*mapping));
  slots_.open(serial_, this->memory());
  channel_pair_.our_credit = {serial_, 0};
  settle(Stage::kOpen);
  peer_.post(packet_of(Verb::kAccept, *this));
}

bool ReceiverLink::arrived(std::uint64_t message) const {
  // Acquire: as in view.
  const auto is_in = [](SlotHeader& h, std::uint64_t n) {
    return shared(h.sequence).load(std::memory_order_acquire) == n + 1;
  };
  if (!is_in(header(), next_) || message == next_) return message == next_ && is_in(header(), next_);
  const bool again = (shared(header().size_and_kind).load(std::memory_order_relaxed) & kWrap) != 0;
  return is_in(*reinterpret_cast<SlotHeader*>(following(again)), message);
}

std::string ReceiverLink::failure() const {
  if (stage_ != Stage::kBroken) return {};
  return control_ != nullptr && !damaged_ && arrived(next_) ? std::string() : why_;
}

tutti_link_result ReceiverLink::malformed(const std::string& what) {
  damaged_ = true;
  return broken("message " + std::to_string(next_) + " of " + peer_name() + " on channel " + std::to_string(channel_) +
                " is damaged: " + what);
}

tutti_link_result ReceiverLink::oversized(std::uint64_t size_and_kind) {
  return malformed("kind " + std::to_string((size_and_kind & ~kWrap) >> kKindShift) + " with " +
                   std::to_string(size_and_kind & kSizeMask) + " bytes in slots of " + std::to_string(layout_.slot_bytes));
}

tutti_link_result ReceiverLink::view_elsewhere(tutti_message* message, std::uint64_t size_and_kind) {
  const Kind kind = kind_of(size_and_kind);
  switch (kind) {
    case Kind::kSlot:
    case Kind::kTimed:
      return view_slot(message, kind);
    case Kind::kPull:
      return view_pull(message);
    case Kind::kPut:
      return view_put(message);
    case Kind::kInline:
    case Kind::kShort:
      break;
  }
  return oversized(size_and_kind);
}

tutti_link_result ReceiverLink::view_pull(tutti_message* message) {
  if (pulled_ == nullptr) {
    const Reference source = header().where.reference;
    PeerRegion* region = peer_.region(source.region);
    // Its announcement was sent before the message, but may still be waiting in the socket.
    if (region == nullptr && peer_.advance()) region = peer_.region(source.region);
    if (region == nullptr) {
      viewed_ = next_;  // the caller has not seen it: a grant that it makes now is for this message, and comes too late
      const bool never_comes = peer_.stage() == Peer::Stage::kGone || stage_ == Stage::kBroken;
      return never_comes ? malformed("its region is unknown") : nothing();
    }
    std::string why;
    const unsigned char* const data = region->at(source.offset, message->bytes, false, why);
    if (data == nullptr) return malformed(why);
    region->hold();
    pulled_ = region;
    pulled_data_ = data;
    pulled_bytes_ = message->bytes;
  }
  if (message->bytes != pulled_bytes_) return malformed("its length has changed");
  if (!still_offered()) return TUTTI_LINK_BROKEN;
  message->data = pulled_data_;
  return TUTTI_LINK_OK;
}

/// Whether the memory that a pulled message lies in is its sender's word still; where not, the link is broken.
bool ReceiverLink::still_offered() {
  // Acquire-release, by a write that changes nothing. What was read of the sender's memory since the last look was read
  // before this one. A sender that takes its memory back writes it after having said so.
  if (shared(control_->withdrawn).fetch_add(0, std::memory_order_acq_rel) == 0) return true;
  static_cast<void>(malformed("its sender, whose call failed, has taken back the memory in which it lies"));
  return false;
}

tutti_link_result ReceiverLink::view_slot(tutti_message* message, Kind kind) {
  // Relaxed: read once, as in hear.
  const Placement placement{shared(header().where.placement.word).load(std::memory_order_relaxed)};
  const std::uint64_t serial = shared(header().where.credit.serial).load(std::memory_order_relaxed);
  const std::uint64_t bytes = message->bytes;
  message->data = slots_.view(placement, serial, bytes);
  if (message->data == nullptr) [[unlikely]]
    return misplaced(placement, bytes);
  if (kind == Kind::kTimed && !timer_.is_running()) {
    if (bytes < kLeastTuned || placement.policy() >= 2 * kWritePolicies) return malformed("it is timed as no message is");
    const bool passed = placement.policy() >= kWritePolicies;
    timer_.start(control_->read_ns[choice_of(bytes, passed)][placement.policy() % kWritePolicies], bytes);
  }
  return TUTTI_LINK_OK;
}

tutti_link_result ReceiverLink::misplaced(Placement at, std::uint64_t bytes) {
  const char* const where = at.is_borrowed() ? " of what was lent" : at.is_rotated() ? " behind the slots" : "";
  return malformed(std::to_string(bytes) + " bytes at " + std::to_string(at.value()) + where + " in slots of " +
                   std::to_string(layout_.slot_bytes));
}

void ReceiverLink::drop_pulled() {
  pulled_->drop();
  if (pulled_->forgotten) peer_.sweep_regions();
  pulled_ = nullptr;
}

tutti_link_result ReceiverLink::view_put(tutti_message* message) {
  const Granted& granted = granted_[next_ % kGrants];
  if (granted.message != next_ || granted.bytes != message->bytes) return malformed("it was put where nothing was granted");
  message->data = granted.target;
  return TUTTI_LINK_OK;
}

// The caller does not know what has come since it looked last. So a grant is for the first message that it has neither seen
// nor granted. Where that has come meanwhile the grant is refused, and never slips on to the next message.
tutti_link_result ReceiverLink::grant(OwnRegion* region, void* target, std::uint64_t bytes, std::uint64_t fingerprint) {
  if (stage_ != Stage::kOpen) return nothing();
  const std::uint64_t message = std::max({next_grant_, next_, viewed_});
  if (message > next_ + 1 || bytes < kGrantFloor || region == nullptr || !region->holds(target, bytes) ||
      arrived(message) || region->told[static_cast<std::size_t>(peer_.rank())] == Told::kRefused ||
      !endpoint_.announce(*region, peer_)) {
    return TUTTI_LINK_NOT_YET;
  }
  next_grant_ = message + 1;
  granted_[message % kGrants] = {message, target, bytes};
  GrantEntry& entry = control_->grants[message % kGrants];
  entry.target = {region->id, region->offset_of(target)};
  entry.bytes = bytes;
  entry.fingerprint = fingerprint;
  // Release: the entry's fields before its state. The message that used this entry last, four before, was released long
  // ago.
  shared(entry.state).store(grant_state(message, kGranted), std::memory_order_release);
  return TUTTI_LINK_OK;
}

bool ReceiverLink::take_back(const Granted& granted) {
  GrantEntry& entry = control_->grants[granted.message % kGrants];
  std::uint64_t state = grant_state(granted.message, kGranted);
  // Acquire on failure: the sender's last stores into the memory come before its saying that it is done.
  if (shared(entry.state)
          .compare_exchange_strong(state, grant_state(granted.message, kRevoked), std::memory_order_acq_rel,
                                   std::memory_order_acquire)) {
    return true;
  }
  return state != grant_state(granted.message, kTaken);
}

tutti_quiesced ReceiverLink::quiesce() {
  bool written = false;
  for (const Granted& granted : granted_) {
    if (granted.message == UINT64_MAX || granted.message < next_) continue;
    if (!take_back(granted)) written = true;
  }
  if (!written) return TUTTI_QUIESCED;
  // Whether it has died shows here and now; what else comes is taken on the way. It may need memory, so it comes last.
  if (!peer_.fenced()) static_cast<void>(peer_.advance());
  return peer_.fenced() ? TUTTI_FENCED : TUTTI_QUIESCE_NOT_YET;
}

void ReceiverLink::give_up() {
  static_cast<void>(quiesce());
  if (control_ != nullptr) peer_.post(packet_of(Verb::kCloseReceiver, *this));
}

}  // namespace tutti::shm
