#include "transports/near/local_endpoint.h"

#include <cerrno>
#include <utility>

#include "src/base/byte_codec.h"
#include "src/base/socket.h"

namespace tutti::near {

Result<std::unique_ptr<LocalEndpoint>> LocalEndpoint::open(LocalEndpointConfig config) {
  std::unique_ptr<LocalEndpoint> endpoint(new LocalEndpoint(std::move(config)));
  Result<LocalAddress> address = new_local_address(endpoint->config_.service, endpoint->rank());
  if (!address) return address.status();
  endpoint->address_ = *address;
  if (Status status = endpoint->listen(); !status) return status;
  return endpoint;
}

Status LocalEndpoint::listen() {
  Result<UniqueFd> socket = listen_at(address_.socket());
  if (!socket) return socket.status();
  Listener listener;
  listener.sockets.push_back(std::move(*socket));
  AcceptorOptions options;
  options.most_pending = kMostPending;
  options.on_failure = [this](const SocketAddress&, const char* why) {
    log(4, std::string("dropped a connection: ") + why);
  };
  acceptor_.emplace(std::move(listener), config_.key, config_.purpose, introduction(), std::move(options));
  return acceptor_->fd() >= 0 ? Status() : system_error("cannot create an event descriptor", EMFILE);
}

std::vector<unsigned char> LocalEndpoint::introduction() const {
  ByteWriter out;
  out.i32(config_.rank);
  out.i32(config_.ranks);
  out.u32(config_.endpoint_class);
  return handshake_payload(out);
}

int LocalEndpoint::introduced(std::span<const unsigned char> payload) const {
  ByteReader in(std::as_bytes(payload));
  const int rank = in.i32();
  const bool ours = in.i32() == config_.ranks && in.u32() == config_.endpoint_class && in.complete();
  return ours && rank < config_.ranks ? rank : -1;
}

std::vector<LocalArrival> LocalEndpoint::accept() {
  std::vector<LocalArrival> arrivals;
  for (AuthenticatedConnection& accepted : acceptor_->step()) {
    const int from = introduced(accepted.payload);
    if (from > rank()) {
      arrivals.push_back({from, std::move(accepted.fd)});
    } else {
      ByteReader said(std::as_bytes(std::span(accepted.payload)));
      const int claimed = said.i32();
      log(2, "rank " + std::to_string(rank()) + " refused a connection of rank " + std::to_string(claimed) + " of " +
                 std::to_string(said.i32()));
    }
  }
  return arrivals;
}

Connector LocalEndpoint::connector_to(const LocalAddress& there) const {
  ConnectorOptions options;
  options.may_answer_late = true;
  return Connector({there.socket()}, config_.key, config_.purpose, introduction(), std::move(options));
}

void LocalEndpoint::log(int level, const std::string& text) const {
  if (config_.log) config_.log(level, config_.name + ": " + text);
}

}  // namespace tutti::near
