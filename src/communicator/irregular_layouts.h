// Where the blocks of v-variants lie. The last call's layouts are kept, as most calls are like the one before.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "src/communicator/collective_call.h"
#include "src/communicator/plan_cache.h"
#include "src/executors/host/flat_call.h"

namespace tutti {

/// Lays v-variants out. A call of the same plan over the same blocks is not laid out again; from the second on it runs
/// flat where it can (flat_call.h). Used by whoever's turn it is in the order of entry.
class IrregularLayouts {
 public:
  /// Valid until the next call.
  const HostLayouts& of(const PreparedPlan& plan, const CollectiveCall& call);

 private:
  HostLayouts layouts_;
  std::shared_ptr<LinkedProgram> linked_;  ///< of the last call; it tells programs apart as long as it lives
  std::uint64_t hash_ = 0;                 ///< of the last call's plan
  std::vector<tutti_block> input_;
  std::vector<tutti_block> output_;
  bool repeated_ = false;
};

}  // namespace tutti
