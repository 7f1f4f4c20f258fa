// What the doctor looks at for collectives on CUDA memory.
#pragma once

#include "tools/doctor/checks.h"
#include "topology/sysfs.h"

namespace tutti::doctor {

/// The driver: its version, and whether MPS serves. None is no problem of the machine's.
Finding look_at_cuda_driver(const Sysfs& files);
/// The devices that CUDA_VISIBLE_DEVICES leaves: their memory, their compute mode, which of them reach each other.
Finding look_at_cuda_devices(const Sysfs& files);
/// The kernels, where the library would look for them.
Finding look_at_cuda_kernels(const Sysfs& files);

}  // namespace tutti::doctor
