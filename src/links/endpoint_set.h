// The endpoints that a rank has opened: two of each transport, which a communicator shares with those split off from it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "include/tutti/transport.h"
#include "src/base/settings.h"
#include "src/base/status.h"
#include "src/links/endpoint_group.h"

namespace tutti {

/// Endpoints of a class are used by one thread at a time, so collectives and point to point never wait for each other.
enum class TrafficClass : std::uint32_t { collective = 0, point_to_point = 1 };
inline constexpr std::size_t traffic_classes = 2;

/// A rank's endpoints of every viable transport, what each peer's are called, and the numbers by which all ranks know the
/// transports. Ranks are those of the communicator that was not split off. Constant once the peers' descriptions are read,
/// but for what groups hold.
class EndpointSet {
 public:
  /// One transport that this rank has.
  struct Opened {
    const tutti_transport* transport;
    std::array<std::vector<std::byte>, traffic_classes> own;                 ///< descriptors
    std::array<std::vector<std::vector<std::byte>>, traffic_classes> peers;  ///< per rank; empty: it lacks the transport
  };
  /// One that any rank has; its place in the list is its number on all ranks.
  struct Common {
    std::string name;
    int mine;  ///< index into opened(), -1 where not had here
  };

  /// Opens an endpoint per class of each transport that settings allow and this machine has; of none for one rank.
  /// Errors: as Transports::open.
  static Result<std::unique_ptr<EndpointSet>> open(const Settings& settings, std::span<const unsigned char, 32> key,
                                                   int rank, int ranks);
  EndpointSet(const EndpointSet&) = delete;
  EndpointSet& operator=(const EndpointSet&) = delete;

  /// What peers must know of this rank, as bytes.
  std::vector<std::byte> describe() const;
  /// What all ranks have described, in their order. Once.
  void read_descriptions(std::span<const std::vector<std::byte>> descriptions);
  /// Whether settings ask for endpoints like these.
  bool is_opened_by(const Settings& settings) const;

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  const std::vector<Opened>& opened() const { return opened_; }
  const std::vector<Common>& common() const { return common_; }
  /// The names of the transports that a rank opened, and what its process lacks for others, with a remedy; or nothing.
  const std::string& offered(std::size_t rank) const { return offered_[rank]; }
  const std::string& refusal(std::size_t rank) const { return refusals_[rank]; }
  EndpointGroup& group(TrafficClass traffic) { return groups_[static_cast<std::size_t>(traffic)]; }

 private:
  EndpointSet(const Settings& settings, std::span<const unsigned char, 32> key, int rank, int ranks);
  void set_options();
  Status open_endpoints(const tutti_transport& transport);
  int index_of(const std::string& name) const;

  /// The settings that endpoints depend on.
  struct Wishes {
    std::vector<std::string> transports;
    std::string plugin_path;
    std::string module_dir;
    std::vector<std::string> interfaces;
    std::uint32_t low_port, high_port;
    int traffic_class;
    std::uint64_t connect_timeout_ns;
    bool operator==(const Wishes&) const = default;
  };
  static Wishes wishes_of(const Settings& settings);

  std::array<unsigned char, 32> key_;
  const Wishes wishes_;
  const int rank_;
  const int ranks_;
  std::vector<std::string> option_values_;
  std::vector<tutti_option> options_;  ///< of every endpoint; values in option_values_
  std::string refusal_;                ///< this rank's
  std::vector<std::string> refusals_;
  std::vector<std::string> offered_;
  std::vector<Opened> opened_;
  std::vector<Common> common_;
  std::array<EndpointGroup, traffic_classes> groups_;
};

}  // namespace tutti
