#include "transports/verbs/sentences.h"

#include <fmt/format.h>

#include "src/tables/units.h"

namespace tutti::verbs {
namespace {

/// Nobody acknowledged what was sent.
Status no_answer(const PathTrouble& trouble) {
  const std::string tried = fmt::format("{} could not be reached by {} ({}) for {}", trouble.peer, trouble.device,
                                        trouble.own_address, duration_text(trouble.tried_ns));
  if (!trouble.peer_answers)
    return {TUTTI_REMOTE_ERROR, tried + ", and its process does not answer either",
            "See whether that machine runs, and what became of its process."};
  if (trouble.other_is_down)
    return {TUTTI_REMOTE_ERROR, tried + "; its own port is down", "See to the cable or switch port at its end."};
  return {TUTTI_REMOTE_ERROR,
          fmt::format("{}; our port is active and its process answers, so packets are lost between {} and {}", tried,
                      trouble.own_address, trouble.other_address),
          fmt::format("Check the route and traffic class {} at the switch (ib_write_bw {}).", trouble.traffic_class,
                      trouble.other_address)};
}

Status port_down(const PathTrouble& trouble) {
  return {TUTTI_SYSTEM_ERROR,
          fmt::format("{} has been {} for {}; {} waits", trouble.device, trouble.port_state,
                      duration_text(trouble.tried_ns), trouble.peer),
          "See to its cable or switch port, and set its interface up."};
}

/// The adapter could not read or write memory that the library had registered.
Status memory_refused(const PathTrouble& trouble, const char* where) {
  std::string what =
      fmt::format("{} {} could not use {} on the way to {} (vendor error {:#x})", where, trouble.device,
                  trouble.is_device_memory ? "a GPU's memory" : "registered memory", trouble.peer, trouble.vendor_error);
  if (!trouble.is_device_memory)
    return {TUTTI_INTERNAL_ERROR, std::move(what), "Please report it with a log of TUTTI_LOG=debug."};
  return {TUTTI_SYSTEM_ERROR, what + ": access control services (ACS) or an IOMMU stand between GPU and adapter",
          "Switch ACS off in the firmware or on the PCIe switch: see the adapter maker's notes on GPUDirect."};
}

}  // namespace

Status why_path_failed(const PathTrouble& trouble) {
  switch (trouble.status) {
    case IBV_WC_RETRY_EXC_ERR:
    case IBV_WC_RESP_TIMEOUT_ERR:
      return trouble.port_is_active ? no_answer(trouble) : port_down(trouble);
    case IBV_WC_LOC_PROT_ERR:
    case IBV_WC_LOC_ACCESS_ERR:
    case IBV_WC_LOC_LEN_ERR:
      return memory_refused(trouble, "the adapter");
    case IBV_WC_REM_ACCESS_ERR:
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_REM_OP_ERR:
      return memory_refused(trouble, "the adapter behind");
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return {TUTTI_INTERNAL_ERROR,
              fmt::format("{} had no receive for what {} sent it, although credit was there", trouble.peer, trouble.device),
              "Please report it with a log of TUTTI_LOG=debug."};
    case IBV_WC_WR_FLUSH_ERR:
      return trouble.port_is_active
                 ? Status(TUTTI_REMOTE_ERROR,
                          fmt::format("the path of {} to {} was closed at the other end", trouble.device, trouble.peer),
                          "See what that process says.")
                 : port_down(trouble);
    case IBV_WC_FATAL_ERR:
      return {TUTTI_SYSTEM_ERROR, fmt::format("{} has failed, or was taken out", trouble.device),
              "See the kernel's log of the device."};
    default:
      return {TUTTI_SYSTEM_ERROR,
              fmt::format("{} ended a transfer to {} with status {} (vendor error {:#x})", trouble.device, trouble.peer,
                          static_cast<int>(trouble.status), trouble.vendor_error),
              "See the kernel's log of the device; ibv_wc_status in verbs.h names the status."};
  }
}

}  // namespace tutti::verbs
