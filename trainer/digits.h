// The embedded data: small drawn digits, moved, scaled, turned, and with noise, so that training needs no file.
#pragma once

#include <cstddef>
#include <cstdint>

#include "trainer/dataset.h"

namespace tutti::trainer {

/// Draws `count` images of 28 x 28 pixels; image i shows digit i mod 10. Image i follows from (seed, i) alone, the same
/// on every rank.
Images draw_digits(std::size_t count, std::uint64_t seed);

/// 6,000 images to train on and 1,000 others to test with, always the same ones: like files, they do not depend on the
/// training's seed.
Dataset embedded_digits();

}  // namespace tutti::trainer
