#include "src/communicator/irregular_layouts.h"

#include <algorithm>

namespace tutti {
namespace {

bool same(const std::vector<tutti_block>& a, const std::vector<tutti_block>& b) {
  const auto equal = [](const tutti_block& x, const tutti_block& y) { return x.ptr == y.ptr && x.count == y.count; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), equal);
}

}  // namespace

const HostLayouts& IrregularLayouts::of(const PreparedPlan& plan, const CollectiveCall& call) {
  const Lowered& lowered = plan.linked->lowered;
  const bool again =
      linked_ == plan.linked && hash_ == plan.plan.hash && same(input_, call.input) && same(output_, call.output);
  if (again && repeated_) return layouts_;
  if (again) {
    layouts_.flat = flatten(plan.plan, lowered, layouts_);
  } else {
    linked_ = nullptr;  // should memory run out
    input_ = call.input;
    output_ = call.output;
    layouts_.flat = {};
    lay_out_irregular(plan.plan, lowered.program, {input_, output_}, layouts_);
    linked_ = plan.linked;
    hash_ = plan.plan.hash;
  }
  repeated_ = again;
  return layouts_;
}

}  // namespace tutti
