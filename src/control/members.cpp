#include "src/control/members.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace tutti {

std::string Member::text() const {
  const std::string also = global < 0 || global == rank ? "" : "global " + std::to_string(global) + ", ";
  return "rank " + std::to_string(rank) + " (" + also + (host.empty() ? "unknown host" : host) + ", pid " +
         std::to_string(pid) + ")";
}

Guilty Member::guilty() const {
  Guilty guilty;
  guilty.rank = rank;
  guilty.pid = pid;
  guilty.host = host;
  return guilty;
}

Member this_member(int rank) {
  Member member;
  member.rank = rank;
  member.pid = ::getpid();
  member.host = host_name();
  member.machine = machine_id();
  struct stat info{};
  if (::stat("/proc/self/ns/pid", &info) == 0) member.pid_namespace = info.st_ino;
  return member;
}

/// Goes up wherever what ranks of a communicator tell each other changes, messages over links included.
constexpr std::uint32_t format = 6;

void pack_member(ByteWriter& out, const Member& member) {
  out.u32(format);
  out.i32(member.rank);
  out.i32(member.global);
  out.i32(member.pid);
  out.text(member.host);
  out.u64(member.machine);
  out.u64(member.pid_namespace);
  out.i32(member.activity_fd);
  out.u64(member.activity_inode);
  out.blob(member.blob);
}

Member unpack_member(ByteReader& in) {
  Member member;
  if (in.u32() != format) return member;  // and what is left over shows that it is none
  member.rank = in.i32();
  member.global = in.i32();
  member.pid = in.i32();
  member.host = in.text();
  member.machine = in.u64();
  member.pid_namespace = in.u64();
  member.activity_fd = in.i32();
  member.activity_inode = in.u64();
  const auto blob = in.blob();
  member.blob.assign(blob.begin(), blob.end());
  return member;
}

void pack_introduction(ByteWriter& out, const Introduction& introduction) {
  pack_member(out, introduction.member);
  out.u8(static_cast<std::uint8_t>(std::min<std::size_t>(introduction.addresses.size(), 255)));
  for (std::size_t i = 0; i < std::min<std::size_t>(introduction.addresses.size(), 255); ++i) {
    introduction.addresses[i].pack(out);
  }
}

Introduction unpack_introduction(ByteReader& in) {
  Introduction introduction;
  introduction.member = unpack_member(in);
  const int count = in.u8();
  for (int i = 0; i < count && in.ok(); ++i) introduction.addresses.push_back(SocketAddress::unpack(in));
  return introduction;
}

void pack_error(ByteWriter& out, const Error& error) {
  out.i32(error.status);
  out.i32(error.system_error);
  out.text(error.message);
  out.text(error.remedy);
  out.u64(error.operation);
  out.text(error.operation_kind);
  out.u64(error.limit_ns);
  out.u32(static_cast<std::uint32_t>(error.guilty.size()));
  for (const Guilty& guilty : error.guilty) {
    out.i32(guilty.rank);
    out.i32(guilty.pid);
    out.text(guilty.host);
    out.u64(guilty.last_operation);
    out.text(guilty.last_operation_kind);
  }
}

namespace {

// What a peer's failure was: never none, whatever it says, and a newer one's unknown failure is a peer's all the same.
tutti_status status_of(std::int32_t told) {
  switch (told) {
    case TUTTI_UNHANDLED_CUDA_ERROR:
    case TUTTI_SYSTEM_ERROR:
    case TUTTI_INTERNAL_ERROR:
    case TUTTI_INVALID_ARGUMENT:
    case TUTTI_INVALID_USAGE:
    case TUTTI_REMOTE_ERROR:
    case TUTTI_TIMEOUT:
    case TUTTI_MISMATCH:
    case TUTTI_ABORTED:
    case TUTTI_UNSUPPORTED:
      return static_cast<tutti_status>(told);
    default:
      return TUTTI_REMOTE_ERROR;
  }
}

}  // namespace

Error unpack_error(ByteReader& in) {
  Error error;
  error.status = status_of(in.i32());
  error.system_error = in.i32();
  error.message = in.text();
  error.remedy = in.text();
  error.operation = in.u64();
  error.operation_kind = in.text();
  error.limit_ns = in.u64();
  const std::uint32_t count = in.u32();
  for (std::uint32_t i = 0; i < count && in.ok(); ++i) {
    Guilty guilty;
    guilty.rank = in.i32();
    guilty.pid = in.i32();
    guilty.host = in.text();
    guilty.last_operation = in.u64();
    guilty.last_operation_kind = in.text();
    error.guilty.push_back(std::move(guilty));
  }
  return error;
}

std::vector<int> neighbours(int rank, int ranks) {
  std::vector<int> result;
  for (std::int64_t distance = 1; distance < ranks; distance *= 2) {
    result.push_back(static_cast<int>((rank + distance) % ranks));
    result.push_back(static_cast<int>((rank - distance + ranks) % ranks));
  }
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  std::erase(result, rank);
  return result;
}

int ring_distance(int a, int b, int ranks) {
  const int forward = std::abs(a - b);
  return std::min(forward, ranks - forward);
}

std::string rank_list(std::span<const int> ranks) {
  std::string text;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    text += (text.empty() ? "" : ", ") + std::to_string(ranks[i]);
    if (end - i == 2) text += ", " + std::to_string(ranks[i + 1]);
    if (end - i > 2) text += "-" + std::to_string(ranks[end - 1]);
    i = end;
  }
  return (ranks.size() == 1 ? "rank " : "ranks ") + text;
}

}  // namespace tutti
