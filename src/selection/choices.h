// All that selection chooses, over every size of block, as rows of a tuning table.
#pragma once

#include <span>

#include "src/schedule/problem.h"
#include "src/selection/tuning.h"
#include "topology/view.h"

namespace tutti {

/// `tuning` with the view's constants, and with rows in the place of its own that say for every size of block, from 0 to
/// 2^64 - 1 bytes, what select() takes by `tuning` on the view's ranks for each of the collectives: whoever uses the result
/// on such ranks chooses as before. Sizes are cut where the choice changes, to the byte; a change that is taken back within
/// 1/512 of the size may be missed. Above 2^56 bytes the last row goes on. Pure.
Tuning with_every_choice(const Tuning& tuning, const View& view, std::span<const Collective> wanted);

}  // namespace tutti
