// The stand-in's libnvidia-ml.so.1, as topology asks it.
#include <gtest/gtest.h>

#include "topology/nvml_api.h"

namespace tutti {
namespace {

TEST(StandinNvml, ShowsTheDevicesAndTheLinksBetweenThem) {
  const NvmlApi* const api = load_nvml();
  if (api == nullptr) GTEST_SKIP() << "this machine has no NVML";
  unsigned count = 0;
  ASSERT_EQ(api->init(), nvml::kSuccess);
  ASSERT_EQ(api->device_count(&count), nvml::kSuccess);
  nvml::Device device = nullptr;
  ASSERT_EQ(api->device_by_index(0, &device), nvml::kSuccess);
  char name[nvml::kNameBytes] = {};
  ASSERT_EQ(api->name(device, name, sizeof(name)), nvml::kSuccess);
  if (std::string(name) != "Tutti stand-in" || count < 2) GTEST_SKIP() << "a real one, or one device";
  int active = 0;
  nvml::PciInfo own{};
  nvml::PciInfo other{};
  EXPECT_EQ(api->link_state(device, 0, &active), nvml::kSuccess);
  EXPECT_EQ(active, 1);
  EXPECT_EQ(api->pci_info(device, &own), nvml::kSuccess);
  EXPECT_EQ(api->link_remote(device, 0, &other), nvml::kSuccess);
  EXPECT_EQ(other.bus, own.bus + 1);
  EXPECT_NE(api->link_state(device, count - 1, &active), nvml::kSuccess) << "one link for each other device";
  EXPECT_EQ(api->shutdown(), nvml::kSuccess);
}

}  // namespace
}  // namespace tutti
