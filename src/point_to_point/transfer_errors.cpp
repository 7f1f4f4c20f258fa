#include "src/point_to_point/transfer_errors.h"

#include <fmt/format.h>

#include <cstdint>

#include "src/base/clock.h"
#include "src/base/plural.h"
#include "src/base/settings.h"
#include "src/tables/names.h"
#include "src/tables/units.h"

namespace tutti {
namespace {

std::string byte_count(std::uint64_t bytes) { return plural(static_cast<std::int64_t>(bytes), "byte"); }

const char* kind_of(const Transfer& transfer) { return transfer.sends ? "send" : "recv"; }

std::string user_tag_of(const Transfer& transfer) {
  return transfer.user_tag == 0 ? "" : fmt::format(" (user tag {})", transfer.user_tag);
}

/// "rank 0's send of 8 bytes to rank 1 with tag 0 in "world"".
std::string words_of(const FailureState& failures, int rank, const Transfer& transfer) {
  return fmt::format("rank {}'s {} of {} {} {} with tag {}{} in \"{}\"", rank, kind_of(transfer),
                     byte_count(transfer.bytes), transfer.sends ? "to" : "from",
                     transfer.peer < 0 ? "any rank" : fmt::format("rank {}", transfer.peer), transfer.tag,
                     user_tag_of(transfer), failures.name());
}

}  // namespace

Error unfit_message(const FailureState& failures, int rank, const Transfer& receive, int source, const Trailer& message) {
  const bool too_long = message.bytes > receive.bytes;
  Error error;
  error.status = TUTTI_MISMATCH;
  error.operation_kind = "recv";
  error.guilty = {failures.guilty(source)};
  error.message = fmt::format("rank {} of \"{}\" sent {} of {} with tag {}, rank {} has posted a receive{} of {} of {}{}",
                              source, failures.name(), byte_count(message.bytes), text_of(message.type), message.tag, rank,
                              user_tag_of(receive), byte_count(receive.bytes), text_of(receive.type),
                              too_long ? "" : "; the message ends within an element");
  error.remedy = too_long ? "Post a receive at least as long as the send." : "Pass types of one size on both sides.";
  return error;
}

Error missed_deadline(const FailureState& failures, int rank, const ActiveTransfer& active) {
  const Transfer& transfer = active.transfer;
  Error error;
  error.status = TUTTI_TIMEOUT;
  error.limit_ns = active.deadline.limit_ns;
  error.operation_kind = kind_of(transfer);
  if (transfer.peer >= 0) error.guilty = {failures.guilty(transfer.peer)};
  const bool met = active.stage == Stage::met;
  error.message = fmt::format("{} {} within {}", words_of(failures, rank, transfer), met ? "did not end" : "found no match",
                              duration_text(active.deadline.limit_ns));
  error.remedy = fmt::format("{}; raise {} if it is only slow.",
                             met ? "Look for what holds up the peer or the network" : "Check source and tag on both sides",
                             limit_to_raise(active.extended ? 0 : transfer.timeout_ns));
  return error;
}

Error cancelled(const FailureState& failures, int rank, const Transfer& transfer) {
  Error error;
  error.status = TUTTI_ABORTED;
  error.operation_kind = kind_of(transfer);
  error.message = words_of(failures, rank, transfer) + " was taken back by tutti_work_cancel";
  return error;
}

Error lost_peer(const FailureState& failures, int peer, std::string_view why) {
  Error error;
  error.status = TUTTI_REMOTE_ERROR;
  error.guilty = {failures.guilty(peer)};
  error.operation_kind = "send_recv";
  error.message = fmt::format("transfers of \"{}\": rank {} was lost: {}", failures.name(), peer, why);
  return error;
}

}  // namespace tutti
