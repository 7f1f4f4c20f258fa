// The TCP transport: what the transport interface is over sockets.
//
//     endpoint   listening sockets, one epoll set                                   endpoint.h
//     incoming   who comes in, until it is known which socket of a peer it is       incoming.h
//     dialer     all ways to a peer at once, the first that proves itself is taken  dialer.h
//     peer       its connections and channels                                      peer.h
//     stream     one connection: frames out and in                                  stream.h, frame.h
//     link       credit, slots, grants                                             link.h
//
// A message goes out in the call that commits or offers it, in one system call with whatever else waits; it comes in by
// one read with the header of the next, into granted memory where there is a grant, else into a buffer of its own length.
#pragma once

#include "include/tutti/transport.h"

namespace tutti {

/// The transport's table; static, valid for the life of the process.
const tutti_transport& tcp_transport();

}  // namespace tutti
