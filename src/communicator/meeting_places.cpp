#include "src/communicator/meeting_places.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <system_error>

#include "src/base/clock.h"
#include "src/base/descriptor.h"
#include "src/communicator/id_file.h"

namespace tutti {

namespace {

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

Result<Listener> listen_for(const Settings& settings) {
  return listen_on(interface_list(settings), settings.port_range.low, settings.port_range.high);
}

Meeting known(Identity identity, std::string where) {
  Meeting meeting;
  meeting.find = [identity = std::move(identity)]() -> Result<std::optional<Identity>> { return std::optional(identity); };
  meeting.where = std::move(where);
  return meeting;
}

Result<Meeting> by_id(const tutti_unique_id& id) {
  auto identity = unpack_identity(id);
  if (!identity) return identity.status();
  const std::string where = "the unique id's maker (" + identity->addresses.front().text() + ")";
  Meeting meeting = known(std::move(identity).value(), where);
  meeting.holder = -1;
  return meeting;
}

// ---- A file that rank 0 writes.

Result<Meeting> open_by_file(const std::string& path, const std::string& where, Listener listener) {
  const Identity identity{random_key(), listener.addresses};
  auto text = write_id_file(path, identity);
  if (!text) return text.status();
  const auto remove = [path, text = *text] { remove_id_file(path, text); };
  auto started = start_root(std::move(listener), identity.key, remove);
  if (!started) {
    remove();
    return started.status();
  }
  return known(identity, where);
}

Result<Meeting> find_by_file(const std::string& path, const std::string& where) {
  Meeting meeting;
  meeting.where = where;
  meeting.find = [path]() -> Result<std::optional<Identity>> {
    auto record = read_id_file(path);
    if (!record) return record.status();
    // What an earlier job left behind will be replaced by rank 0.
    if (!*record || (*record)->stale()) return std::optional<Identity>();
    return std::optional((*record)->identity);
  };
  meeting.abandon = [path] {
    const auto record = read_id_file(path);
    if (record && *record && (*record)->stale()) remove_id_file(path, (*record)->text);
  };
  return meeting;
}

Result<Meeting> by_file(const std::string& path, const std::string& where, const Settings& settings, int rank) {
  if (rank != 0) return find_by_file(path, where);
  auto listener = listen_for(settings);
  if (!listener) return listener.status();
  return open_by_file(path, where, std::move(listener).value());
}

// ---- An address at which rank 0 listens.

Result<std::optional<Key>> configured_key(const Settings& settings) {
  if (!settings.secret.empty()) return std::optional(key_from_secret(settings.secret));
  if (settings.secret_file.empty()) return std::optional<Key>();
  const auto refuse = [&](const std::string& why) {
    return Status(TUTTI_INVALID_ARGUMENT, "TUTTI_SECRET_FILE=\"" + settings.secret_file + "\" " + why, kSecretRemedy);
  };
  const Descriptor file(::open(settings.secret_file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  std::string secret(kMostSecretBytes + 1, '\0');
  const ssize_t n = file ? ::read(file.get(), secret.data(), secret.size()) : -1;
  if (n < 0) return refuse("cannot be read: " + std::generic_category().message(errno));
  if (static_cast<std::size_t>(n) > kMostSecretBytes) return refuse("holds more than 64 KiB");
  secret.resize(static_cast<std::size_t>(n));
  while (!secret.empty() && (secret.back() == '\n' || secret.back() == '\r')) secret.pop_back();
  if (secret.empty()) return refuse("is empty");
  return std::optional(key_from_secret(secret));
}

// An address is this machine's exactly where one can listen at it.
bool is_here(SocketAddress address) {
  address.set_port(0);
  return listen_at(address).ok();
}

// Listens at the given addresses (a host may have several; one is enough). Where none is this machine's, rank 0 stands
// behind an address translation, and any address will do.
Result<Listener> listen_at_any_of(const std::vector<SocketAddress>& addresses) {
  Listener listener;
  Status first;
  for (const SocketAddress& address : addresses) {
    auto socket = listen_at(address);
    if (socket) {
      listener.addresses.push_back(address);
      listener.sockets.push_back(std::move(socket).value());
    } else if (first.ok() && socket.status().error().system_error != EADDRNOTAVAIL) {
      first = socket.status();
    }
  }
  if (!listener.sockets.empty()) return listener;
  if (!first.ok()) return first;
  auto socket = listen_at(SocketAddress::any(AF_INET, addresses.front().port()));
  if (!socket) return socket.status();
  listener.addresses = addresses;
  listener.sockets.push_back(std::move(socket).value());
  return listener;
}

Result<Listener> listen_at_first_free(const std::vector<std::vector<SocketAddress>>& candidates) {
  Result<Listener> listener = Status(TUTTI_INTERNAL_ERROR, "There is no port to listen on");
  for (const auto& addresses : candidates) {
    listener = listen_at_any_of(addresses);
    if (listener || listener.status().error().system_error != EADDRINUSE) return listener;
  }
  return listener;
}

struct TcpPlace {
  std::string host_and_port;  // of the first candidate, for sentences
  std::vector<std::vector<SocketAddress>> candidates;
  std::string job;           // names the private file that serves where there is no secret
  bool one_machine = false;  // all ranks are known to be on one
};

Result<Meeting> by_tcp(const TcpPlace& place, const Settings& settings, int rank) {
  const std::string where = std::string(kTcp) + place.host_and_port;
  auto key = configured_key(settings);
  if (!key) return key.status();
  if (!*key) {
    if (!place.one_machine && !is_here(place.candidates.front().front())) {
      return Status(TUTTI_INVALID_ARGUMENT, where + " is on another machine, and there is no secret that would keep strangers out",
                    kSecretRemedy);
    }
    auto path = private_path(place.job);
    if (!path) return path.status();
    if (rank != 0) return find_by_file(*path, where);
    auto listener = listen_at_first_free(place.candidates);
    if (!listener) return listener.status();
    return open_by_file(*path, where, std::move(listener).value());
  }
  Identity identity{**key, {}};
  if (rank == 0) {
    auto listener = listen_at_first_free(place.candidates);
    if (!listener) return listener.status();
    identity.addresses = listener->addresses;
    auto started = start_root(std::move(listener).value(), identity.key, {});
    if (!started) return started.status();
  } else {
    for (const auto& addresses : place.candidates) {
      identity.addresses.insert(identity.addresses.end(), addresses.begin(), addresses.end());
    }
  }
  return known(std::move(identity), where);
}

Result<Meeting> by_tcp_address(const std::string& host_and_port, const Settings& settings, int rank) {
  auto addresses = resolve(host_and_port);
  if (!addresses) return addresses.status();
  TcpPlace place;
  place.host_and_port = host_and_port;
  place.candidates.push_back(std::move(addresses).value());
  place.job = "tcp " + host_and_port;
  return by_tcp(place, settings, rank);
}

Result<Meeting> by_torchrun(const Launched& launched, const Settings& settings, int rank) {
  TcpPlace place;
  place.job = launched.job;
  place.one_machine = launched.one_machine;
  const bool v6 = launched.host.find(':') != std::string::npos;
  const std::string host = v6 ? "[" + launched.host + "]" : launched.host;
  for (const std::uint16_t port : launched.ports) {
    auto addresses = resolve(host + ":" + std::to_string(port));
    if (!addresses) return addresses.status();
    place.candidates.push_back(std::move(addresses).value());
  }
  place.host_and_port = host + ":" + std::to_string(launched.ports.front());
  return by_tcp(place, settings, rank);
}

// ---- The rest.

Result<Meeting> by_address(std::string_view address, const JoinRequest& request, int rank);

Result<Meeting> by_launcher(const JoinRequest& request, int rank) {
  const Settings& settings = request.settings;
  if (!settings.comm_id.empty()) {
    if (starts_with(settings.comm_id, kEnv)) {
      return Status(TUTTI_INVALID_ARGUMENT, "TUTTI_COMM_ID=\"" + settings.comm_id + "\" leads nowhere",
                    "Set it to a printed unique id, tcp://HOST:PORT or file:///PATH");
    }
    return by_address(settings.comm_id, request, rank);
  }
  auto launched = read_launcher(request.environment, settings.port_range.low, settings.port_range.high);
  if (!launched) return launched.status();
  if (launched->meeting == Launched::Meeting::kTcp) return by_torchrun(*launched, settings, rank);
  if (launched->meeting == Launched::Meeting::kPrivate) {
    auto path = private_path(launched->job);
    if (!path) return path.status();
    return by_file(*path, "env:// of " + launched->launcher, settings, rank);
  }
  return Status(TUTTI_INVALID_ARGUMENT,
                "The variables of " + launched->launcher + " do not say where the ranks of several hosts can meet",
                launched->remedy);
}

Result<Meeting> by_address(std::string_view address, const JoinRequest& request, int rank) {
  if (starts_with(address, kTcp)) return by_tcp_address(std::string(address.substr(kTcp.size())), request.settings, rank);
  if (starts_with(address, kEnv)) return by_launcher(request, rank);
  if (starts_with(address, kFile)) {
    const std::string path(address.substr(kFile.size()));
    if (starts_with(path, "/")) return by_file(path, std::string(address), request.settings, rank);
    return Status(TUTTI_INVALID_ARGUMENT, "\"" + std::string(address) + "\" names no absolute path", "Write file:///path/of/a/file");
  }
  if (starts_with(address, kId) || starts_with(address, kIdText)) {
    auto id = id_from_text(starts_with(address, kId) ? address.substr(kId.size()) : address);
    if (!id) return id.status();
    return by_id(*id);
  }
  return Status(TUTTI_INVALID_ARGUMENT, "\"" + std::string(address) + "\" is no address at which ranks can meet",
                "Use tcp://HOST:PORT, file:///PATH, env:// or id:TEXT");
}

// Rank 0 makes an id and tells all; a failure of its own travels the same way, so that nobody waits for it in vain.
Result<Meeting> by_bootstrap(const JoinRequest& request, const RankAndSize& place) {
  std::vector<unsigned char> mine(kBootstrapBytes, 0);
  Status own;
  if (place.rank == 0) {
    auto id = make_unique_id(request.settings);
    own = id.status();
    const std::string text = own.text().substr(0, kBootstrapBytes - sizeof(tutti_unique_id) - 2);
    mine[0] = own.ok() ? 1 : 2;
    if (own.ok()) std::copy_n(id->bytes, sizeof id->bytes, mine.begin() + 1);
    if (!own.ok()) std::copy(text.begin(), text.end(), mine.begin() + 1);
  }
  std::vector<unsigned char> all(kBootstrapBytes * static_cast<std::size_t>(place.ranks), 0);
  const tutti_bootstrap& bootstrap = *request.bootstrap;
  const int code =
      bootstrap.allgather(bootstrap.ctx, mine.data(), mine.size(), all.data(), request.patience.deadline.left_ns());
  if (!own.ok()) return own;
  if (code != 0) {
    return Status(TUTTI_REMOTE_ERROR, "The bootstrap's allgather failed with code " + std::to_string(code),
                  "See what the caller's bootstrap reports");
  }
  if (all[0] == 2) {
    return Status(TUTTI_REMOTE_ERROR, "rank 0 could not open the rendezvous: " +
                                          std::string(reinterpret_cast<const char*>(all.data() + 1)));
  }
  tutti_unique_id id;
  std::copy_n(all.begin() + 1, sizeof id.bytes, id.bytes);
  auto meeting = by_id(id);
  if (meeting) meeting->holder = 0;
  return meeting;
}

}  // namespace

std::string interface_list(const Settings& settings) {
  std::string list;
  for (const std::string& name : settings.interfaces) list += (list.empty() ? "" : ",") + name;
  return list;
}

Result<tutti_unique_id> make_unique_id(const Settings& settings) {
  auto listener = listen_for(settings);
  if (!listener) return listener.status();
  Identity identity{random_key(), {}};
  auto addresses = start_root(std::move(listener).value(), identity.key, {});
  if (!addresses) return addresses.status();
  identity.addresses = std::move(addresses).value();
  return pack_identity(identity);
}

Result<Meeting> open_meeting(const JoinRequest& request, const RankAndSize& place) {
  if (request.id != nullptr) return by_id(*request.id);
  if (request.bootstrap != nullptr) return by_bootstrap(request, place);
  return by_address(request.address, request, place.rank);
}

}  // namespace tutti
