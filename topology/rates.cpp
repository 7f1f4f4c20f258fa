#include "topology/rates.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string_view>

namespace tutti {
namespace {

struct NvlinkRate {
  int sm_from;    ///< compute capability * 10 of the first GPUs with it
  double gbytes;  ///< one way of one link
};
/// The white papers of Pascal, Volta, Ampere, GA102, Hopper and Blackwell: 40, 50, 50, 28.1, 50 and 100 GB/s both ways.
/// (NCCL's src/graph/topo.h reckons with 18, 20, 20, 12, 20.6 and 40.1 one way: what its kernels reach of them.)
constexpr std::array<NvlinkRate, 7> kNvlinkRates = {
    {{60, 20}, {70, 25}, {80, 25}, {86, 14.0625}, {87, 25}, {90, 25}, {100, 50}}};
/// By NVML's number of the version: none, 1.0, 2.0, 2.2, 3.0, 3.1, 4.0, 5.0.
constexpr std::array<double, 8> kNvlinkVersions = {25, 20, 25, 25, 25, 25, 25, 50};
constexpr double kCommonNvlink = 25;

struct XgmiRate {
  std::string_view gcn;
  double gbytes;
};
/// MI50 and MI100: 92 GB/s both ways of a link; MI200: 100; MI300: 128; MI350: 153.6. (RCCL's src/graph/topo.h reckons with
/// 24, 24, 36, 48 and 48 one way.)
constexpr std::array<XgmiRate, 9> kXgmiRates = {
    {{"906", 46}, {"908", 46}, {"910", 50}, {"90a", 50}, {"940", 64}, {"941", 64}, {"942", 64}, {"950", 76.8}, {"", 46}}};

constexpr int kSkylake = 0x55;

struct CpuRule {
  std::string_view arch;
  std::string_view vendor;  ///< empty: any
  int family;               ///< -1: any
  int model_from;
  double gbytes;
};
/// The first that fits counts. AMD's families are written as they are (23, 25, 26) or, as NCCL and RCCL do, with the
/// extended part shifted by four bits (143, 175, 191).
constexpr std::array<CpuRule, 15> kCpuRules = {{{"ppc64", "", -1, 0, 32},                     // POWER9
                                                {"arm64", "", -1, 0, 6},                      //
                                                {"x86_64", "GenuineIntel", 6, 0xcf, 40},      // from Emerald Rapids on
                                                {"x86_64", "GenuineIntel", 6, 0x8f, 22},      // Sapphire Rapids
                                                {"x86_64", "GenuineIntel", 6, kSkylake, 10},  // Skylake
                                                {"x86_64", "GenuineIntel", -1, 0, 6},         // Broadwell and before
                                                {"x86_64", "AuthenticAMD", 25, 0, 24},        // Zen 3 and 4
                                                {"x86_64", "AuthenticAMD", 175, 0, 24},       //
                                                {"x86_64", "AuthenticAMD", 26, 0, 32},        // Zen 5
                                                {"x86_64", "AuthenticAMD", 191, 0, 32},       //
                                                {"x86_64", "AuthenticAMD", -1, 0, 16},        // Zen 1 and 2
                                                {"x86_64", "CentaurHauls", 7, 0x5b, 9},       // Yongfeng
                                                {"x86_64", "CentaurHauls", -1, 0, 6},         //
                                                {"x86_64", "  Shanghai  ", 7, 0x5b, 9},       // Yongfeng
                                                {"x86_64", "  Shanghai  ", -1, 0, 6}}};
/// NCCL's figure for Skylake's UPI.
constexpr double kUnknownCpu = 10;

struct DeviceRule {
  std::uint16_t first;
  std::uint16_t last;
  int sm;
};
/// GP100, GV100, TU102 and TU104, GA100, GA102, GH100, AD102, GB100.
constexpr std::array<DeviceRule, 8> kNvidiaDevices = {{{0x15f0, 0x15ff, 60},
                                                       {0x1d80, 0x1dff, 70},
                                                       {0x1e00, 0x1eff, 75},
                                                       {0x2080, 0x20ff, 80},
                                                       {0x2200, 0x22ff, 86},
                                                       {0x2300, 0x23ff, 90},
                                                       {0x2600, 0x26ff, 89},
                                                       {0x2900, 0x29ff, 100}}};

struct Rate {
  double transfers;  ///< GT/s of a lane
  double code;       ///< useful part of its bits
  const char* text;  ///< as sysfs writes it
};
/// PCI Express base specifications 1 to 6: 8b/10b, 128b/130b, and 242 of 256 bytes of a flit.
constexpr std::array<Rate, 6> kPcieRates = {{{2.5, .8, "2.5 GT/s PCIe"},
                                             {5, .8, "5.0 GT/s PCIe"},
                                             {8, 128. / 130, "8.0 GT/s PCIe"},
                                             {16, 128. / 130, "16.0 GT/s PCIe"},
                                             {32, 128. / 130, "32.0 GT/s PCIe"},
                                             {64, 242. / 256, "64.0 GT/s PCIe"}}};
/// The likeliest first: several links of different generations carry the same.
constexpr std::array<int, 6> kPcieWidths = {16, 8, 4, 2, 1, 32};

}  // namespace

double nvlink_gbytes(int sm) {
  double gbytes = kCommonNvlink;
  for (const NvlinkRate& rate : kNvlinkRates) {
    if (sm >= rate.sm_from) gbytes = rate.gbytes;
  }
  return gbytes;
}

double nvlink_gbytes_of_version(unsigned version) {
  return version < kNvlinkVersions.size() ? kNvlinkVersions[version] : kCommonNvlink;
}

double xgmi_gbytes(const std::string& gcn) {
  std::string_view number = gcn;
  if (number.starts_with("gfx")) number.remove_prefix(3);
  return std::find_if(kXgmiRates.begin(), kXgmiRates.end() - 1, [&](const XgmiRate& r) { return r.gcn == number; })->gbytes;
}

double between_packages_gbytes(const CpuModel& cpu) {
  for (const CpuRule& rule : kCpuRules) {
    const bool fits = rule.arch == cpu.arch && (rule.vendor.empty() || rule.vendor == cpu.vendor) &&
                      (rule.family < 0 || rule.family == cpu.family) && cpu.model >= rule.model_from;
    if (fits) return rule.gbytes;
  }
  return kUnknownCpu;
}

bool has_one_host_bridge(const CpuModel& cpu) {
  return cpu.vendor == "GenuineIntel" && cpu.family == 6 && cpu.model > 0 && cpu.model < kSkylake;
}

int sm_of_device(std::uint16_t vendor, std::uint16_t device) {
  if (vendor != kNvidia) return 0;
  const auto rule = std::find_if(kNvidiaDevices.begin(), kNvidiaDevices.end(),
                                 [&](const DeviceRule& r) { return device >= r.first && device <= r.last; });
  return rule == kNvidiaDevices.end() ? 0 : rule->sm;
}

double pcie_gbytes(const std::string& speed, int width) {
  double transfers = 0;
  const auto [stop, error] = std::from_chars(speed.data(), speed.data() + speed.size(), transfers);
  if (error != std::errc() || width <= 0) return 0;
  for (const Rate& rate : kPcieRates) {
    if (transfers == rate.transfers) return transfers * rate.code * width / 8;
  }
  return 0;
}

PcieLink pcie_link(double gbytes) {
  PcieLink nearest;
  double least = .02 * gbytes;
  for (const int width : kPcieWidths) {
    for (const Rate& rate : kPcieRates) {
      const double off = std::abs(pcie_gbytes(rate.text, width) - gbytes);
      if (off >= least) continue;
      least = off;
      nearest = {rate.text, width};
    }
  }
  return nearest;
}

}  // namespace tutti
