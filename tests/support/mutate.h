// Random changes to fused programs, for tests of what judges them.
#pragma once

#include <random>
#include <string>

#include "src/schedule/text.h"

namespace tutti::testing {

/// Makes one random change to one rank's program: a step dropped, doubled, moved, or moved to another lane; another chunk,
/// block, peer, link, buffer; a source or destination dropped, sources swapped; the last touch toggled; a dependency
/// dropped or turned. Dependencies of the other steps keep meaning the same steps. The program stays an array of numbers
/// in range of nothing in particular: judging it is the verifier's business.
///
/// Of an irregular schedule half of the changes are to what sizes steps: which blocks their operands are of, how many, in
/// which order, which chunks; two steps' blocks exchanged. Others of these are detours, which often are right for equal
/// blocks: a further destination, copy, or message of both ends, and blocks that lie in the scratch for a while.
///
/// Returns what was changed, in words; empty where nothing could be changed.
std::string mutate(Schedule& schedule, std::mt19937_64& random);

}  // namespace tutti::testing
