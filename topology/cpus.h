// How many CPUs this process may really use: its affinity and the quotas of its control groups.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "topology/sysfs.h"

namespace tutti {

/// What bounds a process's use of CPUs.
struct CpuLimits {
  std::vector<int> allowed;                                ///< CPUs that its affinity lets it run on, sorted
  double quota = std::numeric_limits<double>::infinity();  ///< CPUs' worth of time by cgroup, infinity without a limit
  std::string quota_from;                                  ///< the file that sets the quota, empty without one

  /// CPUs that it can keep busy: the allowed ones, no more than the quota rounded up, at least 1.
  int effective() const;
};

/// The limits of this process, read anew. Affinity: that of its first thread and of the calling one together, so that a
/// thread that was bound to one core does not speak for its process. Quota: the least of cgroup v1's cfs quota and v2's
/// cpu.max, of its own group and of every parent that is visible. About 100 us; needs neither hwloc nor /sys (what cannot
/// be read does not bound). Thread safe.
CpuLimits cpu_limits(const Sysfs& files = Sysfs());

/// Sorts CPUs and leaves each once.
void sort_once_each(std::vector<int>& cpus);

/// cpu_limits().effective().
int effective_cpus();

/// CPUs that processes of one machine can keep busy together: those that any of them may run on, no more than the largest
/// quota among them. One process that is bound to a core knows only its own; ranks that were bound to a core each have as
/// many as there are ranks.
int effective_cpus(const std::vector<CpuLimits>& processes);

}  // namespace tutti
