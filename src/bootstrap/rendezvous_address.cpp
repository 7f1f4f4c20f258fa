#include "src/bootstrap/rendezvous_address.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <system_error>

#include "src/base/clock.h"
#include "src/base/exception_boundary.h"
#include "src/base/log.h"
#include "src/base/unique_fd.h"
#include "src/bootstrap/id_file.h"
#include "src/tables/units.h"

namespace tutti {

namespace {

using Addresses = std::vector<SocketAddress>;

constexpr std::string_view kTcp = "tcp://";
constexpr std::string_view kFile = "file://";
constexpr std::string_view kEnv = "env://";
constexpr std::string_view kId = "id:";
constexpr std::string_view kIdText = "tutti1:";
constexpr std::size_t kBootstrapBytes = 512;
constexpr std::size_t kMostSecretBytes = 64 * 1024;

const char* const kSecretRemedy =
    "Set TUTTI_SECRET (any text, the same on all ranks), TUTTI_SECRET_FILE or tutti_config.secret; ranks of one machine "
    "need none";

bool starts_with(std::string_view text, std::string_view prefix) { return text.substr(0, prefix.size()) == prefix; }

// The printed id in an address that is one: its prefix may be left out.
std::string_view id_text(std::string_view address) {
  return starts_with(address, kId) ? address.substr(kId.size()) : address;
}

RendezvousPoint known(UniqueIdContents contents, std::string where) {
  RendezvousPoint point;
  point.find = [contents = std::move(contents)]() -> Result<std::optional<UniqueIdContents>> {
    return std::optional(contents);
  };
  point.where = std::move(where);
  return point;
}

Result<RendezvousPoint> by_id(const tutti_unique_id& id) {
  auto contents = unpack_unique_id(id);
  if (!contents) return contents.status();
  const Addresses first = with_scopes(contents->addresses.front());
  const std::string where =
      "the unique id's maker (" + (first.size() == 1 ? first : contents->addresses).front().text() + ")";
  const Key key = contents->key;
  if (Status refused = refusal_of_id(key); !refused) return refused;
  RendezvousPoint point = known(std::move(contents).value(), where);
  point.holder = -1;
  point.server = server_of_id(key);
  point.listened_first = true;
  return point;
}

// ---- A file that rank 0 writes.

Result<RendezvousPoint> open_by_file(const std::string& path, const std::string& where, Listener listener) {
  stop_abandoned_servers(path);
  if (const auto there = read_id_file(path); there && *there) {
    stop_abandoned_servers((*there)->contents.addresses);  // which removes the file
  }
  const UniqueIdContents contents{random_key(), listener.addresses};
  RendezvousPoint point = known(contents, where);
  auto text = write_id_file(path, contents);
  if (!text) return text.status();
  const Status started = catching([&] {
    const auto remove = [path, text = *text] { remove_id_file(path, text); };
    auto server = start_server(std::move(listener), contents.key, ReusePolicy::kPossible, remove, path);
    if (server) point.server = *server;
    return server.status();
  });
  if (started) return point;
  remove_id_file(path, *text);
  return started;
}

Result<RendezvousPoint> find_by_file(const std::string& path, const std::string& where) {
  RendezvousPoint point;
  point.where = where;
  point.find = [path]() -> Result<std::optional<UniqueIdContents>> {
    auto record = read_id_file(path);
    if (!record) return record.status();
    // What an earlier job left behind will be replaced by rank 0.
    if (!*record || (*record)->stale()) return std::optional<UniqueIdContents>();
    return std::optional((*record)->contents);
  };
  point.clean_up = [path] {
    const auto record = read_id_file(path);
    if (record && *record && (*record)->stale()) remove_id_file(path, (*record)->text);
  };
  return point;
}

Result<RendezvousPoint> by_file(const std::string& path, const std::string& where, const Settings& settings, int rank) {
  if (rank != 0) return find_by_file(path, where);
  auto listener = listen_for(settings);
  if (!listener) return listener.status();
  return open_by_file(path, where, std::move(listener).value());
}

// ---- An address at which rank 0 listens.

// All that `file` has to say: it may be a pipe whose writer takes its time. Errors: half-sentences about it.
Result<std::string> read_to_end(const UniqueFd& file, const WaitLimits& wait_limits) {
  std::string text;
  std::array<char, 4096> part;
  while (text.size() <= kMostSecretBytes) {
    pollfd wait{file.get(), POLLIN, 0};
    // A pipe that nobody has opened for writing yet would read as if it had ended; it does not poll readable.
    if (::poll(&wait, 1, wait_limits.slice_ms()) > 0) {
      const ssize_t n = ::read(file.get(), part.data(), part.size());
      if (n == 0) break;
      if (n > 0) text.append(part.data(), static_cast<std::size_t>(n));
      if (n < 0 && errno != EAGAIN && errno != EINTR) return system_error("cannot be read", errno);
    }
    if (Status status = wait_limits.check(); !status) return status;
    if (!wait_limits.deadline.passed()) continue;
    Error error;
    error.status = TUTTI_TIMEOUT;
    error.limit_ns = wait_limits.deadline.limit_ns;
    error.message = "has not been written to its end within " + duration_text(wait_limits.deadline.limit_ns);
    return Status(std::move(error));
  }
  return text;
}

// An address is this machine's exactly where one can listen at it; a host is where one of its addresses is.
bool is_here(const Addresses& addresses) {
  return std::any_of(addresses.begin(), addresses.end(), [](SocketAddress address) {
    address.set_port(0);
    return listen_at(address).ok();
  });
}

bool all_of_loopback(const Addresses& addresses) {
  return std::all_of(addresses.begin(), addresses.end(), [](const SocketAddress& one) { return one.loopback(); });
}

// Where others call whoever listens at `addresses`: of the wildcards loopback, as only ranks of rank 0's machine can mean
// them.
Addresses to_call(const Addresses& addresses) {
  Addresses all;
  for (const SocketAddress& address : addresses) {
    if (!address.wildcard()) {
      all.push_back(address);
      continue;
    }
    all.push_back(SocketAddress::v4(std::array<unsigned char, 4>{127, 0, 0, 1}, address.port()));
    const std::array<unsigned char, 16> v6 = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
    if (address.family() == AF_INET6) all.push_back(SocketAddress::v6(v6, address.port()));
  }
  return all;
}

// A v6 wildcard takes v4 too, and is v4's where there is no v6.
Result<UniqueFd> listen_everywhere(std::uint16_t port) {
  auto socket = listen_at(SocketAddress::any(AF_INET6, port));
  return socket || socket.status().error().system_error == EADDRINUSE ? std::move(socket)
                                                                      : listen_at(SocketAddress::any(AF_INET, port));
}

// Listens at the given addresses (a host may have several; one is enough). Where none is this machine's, rank 0 stands
// behind an address translation, and any address will do.
Result<Listener> listen_at_any_of(const Addresses& addresses, bool& elsewhere) {
  elsewhere = false;
  Listener listener;
  Status first;
  for (const SocketAddress& address : addresses) {
    const bool everywhere = address.wildcard() && address.family() == AF_INET6;
    auto socket = everywhere ? listen_everywhere(address.port()) : listen_at(address);
    if (socket) {
      for (const SocketAddress& one : to_call({address})) listener.addresses.push_back(one);
      listener.sockets.push_back(std::move(socket).value());
    } else if (first.ok() && (socket.status().error().system_error != EADDRNOTAVAIL || all_of_loopback(addresses))) {
      first = socket.status();
    }
  }
  if (!listener.sockets.empty()) return listener;
  if (!first.ok()) return first;
  auto socket = listen_everywhere(addresses.front().port());
  if (!socket) return socket.status();
  elsewhere = true;
  listener.addresses = addresses;
  listener.sockets.push_back(std::move(socket).value());
  return listener;
}

// Right behind an address translation. Mostly it is a mistake, for which the others would be blamed.
void say_elsewhere(const std::string& where) {
  const auto locals = local_addresses("");
  if (!locals) return;
  std::string own;
  for (const InterfaceAddress& local : *locals) own += (own.empty() ? "" : ", ") + local.address.host_text();
  log(Level::warn, where + " is no address of rank 0's machine, whose own are " + own +
                       ". Rank 0 listens at these, and serves where somebody passes connections on to it");
}

Result<Listener> listen_at_first_free(const std::vector<Addresses>& candidates, const std::string& where) {
  for (const auto& addresses : candidates)
    stop_abandoned_servers(to_call(addresses));  // of creations that failed before this one
  Result<Listener> listener = Status(TUTTI_INTERNAL_ERROR, "There is no port to listen on");
  for (const auto& addresses : candidates) {
    bool elsewhere = false;
    listener = listen_at_any_of(addresses, elsewhere);
    if (listener && elsewhere) say_elsewhere(where);
    if (listener || listener.status().error().system_error != EADDRINUSE) return listener;
  }
  return listener;
}

struct TcpPlace {
  std::string host_and_port;  // of the first candidate, for sentences
  std::vector<Addresses> candidates;
  std::string job;           // names the private file that serves where there is no secret
  bool one_machine = false;  // all ranks are known to be on one
};

Result<RendezvousPoint> by_tcp(const TcpPlace& place, const JoinRequest& request, int rank) {
  const Settings& settings = request.settings;
  std::string where = std::string(kTcp) + place.host_and_port;
  if (rank != 0 && place.candidates.front().front().wildcard()) where += " (which is this machine to ranks other than 0)";
  auto key = configured_key(settings, request.wait_limits);
  if (!key) return key.status();
  if (!*key) {
    if (!place.one_machine && !is_here(place.candidates.front())) {
      return Status(TUTTI_INVALID_ARGUMENT,
                    where + " is on another machine, and there is no secret that would keep strangers out", kSecretRemedy);
    }
    auto path = private_path(place.job);
    if (!path) return path.status();
    if (rank != 0) return find_by_file(*path, where);
    sweep_private_folder();
    auto listener = listen_at_first_free(place.candidates, where);
    if (!listener) return listener.status();
    return open_by_file(*path, where, std::move(listener).value());
  }
  UniqueIdContents contents{**key, {}};
  if (rank != 0) {
    for (const auto& candidate : place.candidates) {
      const Addresses addresses = to_call(candidate);
      contents.addresses.insert(contents.addresses.end(), addresses.begin(), addresses.end());
    }
    return known(std::move(contents), where);
  }
  auto listener = listen_at_first_free(place.candidates, where);
  if (!listener) return listener.status();
  contents.addresses = listener->addresses;
  RendezvousPoint point = known(std::move(contents), where);
  auto started = start_server(std::move(listener).value(), **key, ReusePolicy::kPossible, {});
  if (!started) return started.status();
  point.server = *started;
  return point;
}

// One name for the forms in which ranks may write one place. What stands for loopback is "localhost". Any other name is
// itself, as a resolver may answer two ranks differently, and a number is as it is printed.
std::string job_of(HostPort place, const Addresses& addresses) {
  const std::string port = ":" + std::to_string(place.port);
  const Addresses called = to_call(addresses);
  const auto is_localhost = [](const SocketAddress& address) {
    const std::string host = address.host_text();
    return host == "127.0.0.1" || host == "[::1]";
  };
  if (std::ranges::all_of(called, is_localhost)) return "tcp localhost" + port;
  const auto number = numeric_address(place);
  if (number && *number) return "tcp " + called.front().text();
  for (char& c : place.host) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return "tcp " + place.host + port;
}

Result<RendezvousPoint> by_tcp_address(const std::string& host_and_port, const JoinRequest& request, int rank) {
  const auto host = parse_host_port(host_and_port);
  if (!host) return host.status();
  auto addresses = resolve(*host, request.wait_limits, request.resolver);
  if (!addresses) return addresses.status();
  TcpPlace place;
  place.host_and_port = host_and_port;
  place.job = job_of(*host, *addresses);
  place.candidates.push_back(std::move(addresses).value());
  return by_tcp(place, request, rank);
}

Result<RendezvousPoint> by_torchrun(const Launched& launched, const JoinRequest& request, int rank) {
  TcpPlace place;
  place.job = launched.job;
  place.one_machine = launched.one_machine;
  const bool v6 = launched.host.find(':') != std::string::npos;
  const std::string host = v6 ? "[" + launched.host + "]" : launched.host;
  place.host_and_port = host + ":" + std::to_string(launched.ports.front());
  const auto first = parse_host_port(place.host_and_port);
  if (!first) return first.status();
  auto addresses = resolve(*first, request.wait_limits, request.resolver);
  if (!addresses) return addresses.status();
  for (const std::uint16_t port : launched.ports) {
    for (SocketAddress& address : *addresses) address.set_port(port);
    place.candidates.push_back(*addresses);
  }
  return by_tcp(place, request, rank);
}

// ---- The rest.

Result<RendezvousPoint> by_address(std::string_view address, const JoinRequest& request, int rank);

Result<RendezvousPoint> by_launcher(const JoinRequest& request, int rank) {
  const Settings& settings = request.settings;
  if (!settings.comm_id.empty()) {
    if (Status status = check_comm_id(settings.comm_id); !status) return status;
    return by_address(settings.comm_id, request, rank);
  }
  auto launched = read_launcher(request.environment, settings.port_range.low, settings.port_range.high);
  if (!launched) return launched.status();
  if (launched->rendezvous == Launched::Rendezvous::kTcp) return by_torchrun(*launched, request, rank);
  if (launched->rendezvous == Launched::Rendezvous::kPrivate) {
    auto path = private_path(launched->job);
    if (!path) return path.status();
    if (rank == 0) sweep_private_folder();
    return by_file(*path, "env:// of " + launched->launcher, settings, rank);
  }
  return Status(TUTTI_INVALID_ARGUMENT,
                "The variables of " + launched->launcher + " do not say where the ranks of several hosts can meet",
                launched->remedy);
}

Result<RendezvousPoint> by_address(std::string_view address, const JoinRequest& request, int rank) {
  if (Status status = check_address(address); !status) return status;
  if (starts_with(address, kTcp)) return by_tcp_address(std::string(address.substr(kTcp.size())), request, rank);
  if (starts_with(address, kEnv)) return by_launcher(request, rank);
  if (starts_with(address, kFile)) {
    return by_file(std::string(address.substr(kFile.size())), std::string(address), request.settings, rank);
  }
  auto id = id_from_text(id_text(address));
  if (!id) return id.status();
  return by_id(*id);
}

// What each rank says in the caller's all-gather: that it is ready, rank 0 with the id, or why it is not.
enum BootstrapWord : unsigned char { kPresent = 1, kAbsent = 2 };

// The error as others read it, as far as there is room: its words are cut, the remedy's first.
std::vector<std::byte> pack_shortened(Error error, std::size_t room) {
  for (;;) {
    ByteWriter out;
    pack_error(out, error);
    if (out.size() <= room) return out.take();
    std::string& longest = !error.remedy.empty() ? error.remedy : error.message;
    const std::size_t excess = out.size() - room;
    longest.resize(excess < longest.size() ? longest.size() - excess : 0);
    if (longest.empty() && error.message.empty()) return {};
  }
}

std::vector<unsigned char> bootstrap_word(const Status& own, const tutti_unique_id& id, const Member& self) {
  std::vector<unsigned char> word(kBootstrapBytes, 0);
  word[0] = own.ok() ? kPresent : kAbsent;
  if (own.ok()) {
    std::copy_n(id.bytes, sizeof id.bytes, word.begin() + 1);
  } else {
    const auto packed = pack_shortened(for_others(own, self), kBootstrapBytes - 1);
    const auto* first = reinterpret_cast<const unsigned char*>(packed.data());
    std::copy(first, first + packed.size(), word.begin() + 1);
  }
  return word;
}

// Whether all are present, as far as they said it.
Status all_present(const std::vector<unsigned char>& all, int ranks) {
  for (int rank = 0; rank < ranks; ++rank) {
    const auto word = std::span(all).subspan(kBootstrapBytes * static_cast<std::size_t>(rank), kBootstrapBytes);
    if (word[0] == kPresent) continue;
    if (word[0] == kAbsent) {
      ByteReader in(std::as_bytes(word.subspan(1)));
      Error error = unpack_error(in);
      if (in.ok()) return Status(std::move(error));
    }
    Error error;
    error.status = TUTTI_REMOTE_ERROR;
    error.message = "rank " + std::to_string(rank) + " cannot join: the bootstrap's allgather did not bring its word";
    error.guilty.emplace_back().rank = rank;
    return Status(std::move(error));
  }
  return {};
}

// The caller's all-gather of what each has to say of itself. Returns the id of all; `own` where that is a failure.
Result<tutti_unique_id> exchange_words(const JoinRequest& request, int ranks, const Status& own, tutti_unique_id id,
                                       const Member& self) {
  const std::vector<unsigned char> mine = bootstrap_word(own, id, self);
  std::vector<unsigned char> all(kBootstrapBytes * static_cast<std::size_t>(ranks), 0);
  const tutti_bootstrap& bootstrap = *request.bootstrap;
  const int code =
      bootstrap.allgather(bootstrap.ctx, mine.data(), mine.size(), all.data(), request.wait_limits.deadline.left_ns());
  if (!own.ok()) return own;
  if (code != 0) {
    return Status(TUTTI_REMOTE_ERROR, "The bootstrap's allgather failed with code " + std::to_string(code),
                  "See what the caller's bootstrap reports");
  }
  if (Status present = all_present(all, ranks); !present) return present;
  std::copy_n(all.begin() + 1, sizeof id.bytes, id.bytes);
  return id;
}

// Rank 0 makes an id and tells all; a failure of any rank travels the same way, so that nobody waits for it in vain.
Result<RendezvousPoint> by_bootstrap(const JoinRequest& request, const RankAndSize& place, Status own) {
  const Member self = this_member(place.rank);
  std::optional<UniqueIdRendezvous> mine;  // rank 0's; ends with this where something is thrown
  if (place.rank == 0 && own.ok()) {
    auto opened = UniqueIdRendezvous::open(request.settings);
    own = named(opened.status(), self);
    if (opened) mine.emplace(std::move(opened).value());
  }
  RendezvousPoint point;
  const Status outcome = catching([&]() -> Status {
    auto id = exchange_words(request, place.ranks, own, mine ? mine->id() : tutti_unique_id{}, self);
    if (!id) return id.status();
    auto known = by_id(*id);
    if (known) point = std::move(known).value();
    return known.status();
  });
  const ServerId server = mine ? mine->release() : 0;
  if (outcome.ok()) {
    point.holder = 0;
    return point;
  }
  point.server = server;
  point.abandon(outcome, self, request.wait_limits);
  return outcome;
}

}  // namespace

Status check_address(std::string_view address) {
  if (starts_with(address, kTcp)) {
    const auto place = parse_host_port(address.substr(kTcp.size()));
    return place ? numeric_address(*place).status() : place.status();
  }
  if (starts_with(address, kEnv)) return {};
  if (starts_with(address, kId) || starts_with(address, kIdText)) return id_from_text(id_text(address)).status();
  if (!starts_with(address, kFile)) {
    return Status(TUTTI_INVALID_ARGUMENT, "\"" + std::string(address) + "\" is no address at which ranks can meet",
                  "Use tcp://HOST:PORT, file:///PATH, env:// or id:TEXT");
  }
  if (starts_with(address.substr(kFile.size()), "/")) return {};
  return Status(TUTTI_INVALID_ARGUMENT, "\"" + std::string(address) + "\" names no absolute path",
                "Write file:///path/of/a/file");
}

Status check_comm_id(std::string_view address) {
  if (!starts_with(address, kEnv)) {
    const Status status = check_address(address);
    if (status.ok()) return {};
    Error error = status.error();
    error.message = "TUTTI_COMM_ID: " + error.message;
    return Status(std::move(error));
  }
  return Status(TUTTI_INVALID_ARGUMENT, "TUTTI_COMM_ID=\"" + std::string(address) + "\" leads nowhere",
                "Set it to a printed unique id, tcp://HOST:PORT or file:///PATH");
}

Result<std::optional<Key>> configured_key(const Settings& settings, const WaitLimits& wait_limits) {
  if (!settings.secret.empty()) return std::optional(key_from_secret(settings.secret));
  if (settings.secret_file.empty()) return std::optional<Key>();
  const auto refuse = [&](Error error) {
    if (error.status == TUTTI_ABORTED) return Status(std::move(error));
    if (error.status != TUTTI_TIMEOUT) error.status = TUTTI_INVALID_ARGUMENT;
    error.message = "TUTTI_SECRET_FILE=\"" + settings.secret_file + "\" " + error.message;
    error.remedy = kSecretRemedy;
    return Status(std::move(error));
  };
  const auto because = [&](const char* why) { return refuse(Status(TUTTI_INVALID_ARGUMENT, why).error()); };
  const UniqueFd file(::open(settings.secret_file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) return refuse(system_error("cannot be read", errno).error());
  auto secret = read_to_end(file, wait_limits);
  if (!secret) return refuse(secret.status().error());
  if (secret->size() > kMostSecretBytes) return because("holds more than 64 KiB");
  while (!secret->empty() && (secret->back() == '\n' || secret->back() == '\r')) secret->pop_back();
  if (secret->empty()) return because("is empty");
  return std::optional(key_from_secret(*secret));
}

std::string interface_list(const Settings& settings) {
  std::string list;
  for (const std::string& name : settings.interfaces) list += (list.empty() ? "" : ",") + name;
  return list;
}

Result<Listener> listen_for(const Settings& settings) {
  return listen_on(interface_list(settings), settings.port_range.low, settings.port_range.high);
}

Result<UniqueIdRendezvous> UniqueIdRendezvous::open(const Settings& settings, ReusePolicy reuse_policy) {
  auto started = start_id_server(interface_list(settings), settings.port_range, reuse_policy);
  if (!started) return started.status();
  UniqueIdRendezvous point(started->id);
  point.server_ = started->number;
  return point;
}

UniqueIdRendezvous::~UniqueIdRendezvous() { stop_server(server_); }

Result<tutti_unique_id> make_unique_id(const Settings& settings) {
  auto point = UniqueIdRendezvous::open(settings, ReusePolicy::kNewId);
  if (!point) return point.status();
  point->release();
  return point->id();
}

Result<RendezvousPoint> open_rendezvous(const JoinRequest& request, const RankAndSize& place, const Status& so_far) {
  if (request.bootstrap != nullptr) return by_bootstrap(request, place, so_far);
  if (request.id != nullptr) return by_id(*request.id);
  return by_address(request.address, request, place.rank);
}

}  // namespace tutti
