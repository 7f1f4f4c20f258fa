// Indices of nodes, links and places are ints, as -1 says that there is none; containers count by size_t.
#pragma once

#include <cstddef>

namespace tutti {

/// The place in a container of an index that is not negative.
constexpr std::size_t at(int index) { return static_cast<std::size_t>(index); }

}  // namespace tutti
