#include "trainer/digits.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "trainer/random.h"

namespace tutti::trainer {
namespace {

constexpr int kSide = 28;
constexpr int kGlyphRows = 7;
constexpr int kGlyphColumns = 5;
using Glyph = std::array<const char*, kGlyphRows>;

// Two hands draw each digit.
constexpr std::array<std::array<Glyph, 2>, 10> kGlyphs = {{
    {{{" ### ", "#   #", "#   #", "#   #", "#   #", "#   #", " ### "},
      {"  ## ", " #  #", "#   #", "#   #", "#   #", "#  # ", " ##  "}}},
    {{{"  #  ", " ##  ", "# #  ", "  #  ", "  #  ", "  #  ", "#####"},
      {"   # ", "   # ", "  #  ", "  #  ", "  #  ", " #   ", " #   "}}},
    {{{" ### ", "#   #", "    #", "   # ", "  #  ", " #   ", "#####"},
      {"###  ", "   # ", "   # ", " ### ", "#  # ", "#  # ", " ## #"}}},
    {{{" ### ", "#   #", "    #", "  ## ", "    #", "#   #", " ### "},
      {"#####", "   # ", "  #  ", " ### ", "    #", "    #", "#### "}}},
    {{{"   # ", "  ## ", " # # ", "#  # ", "#####", "   # ", "   # "},
      {"#   #", "#   #", "#   #", "#####", "    #", "    #", "    #"}}},
    {{{"#####", "#    ", "#### ", "    #", "    #", "#   #", " ### "},
      {" ####", " #   ", " #   ", "  ## ", "    #", "    #", "#### "}}},
    {{{" ### ", "#    ", "#    ", "#### ", "#   #", "#   #", " ### "},
      {"   # ", "  #  ", " #   ", "# ## ", "##  #", "#   #", " ### "}}},
    {{{"#####", "    #", "   # ", "  #  ", "  #  ", " #   ", " #   "},
      {"#####", "#   #", "   # ", " ####", "  #  ", " #   ", " #   "}}},
    {{{" ### ", "#   #", "#   #", " ### ", "#   #", "#   #", " ### "},
      {" ### ", "#  # ", " # # ", "  #  ", " # # ", "#   #", " ### "}}},
    {{{" ### ", "#   #", "#   #", " ####", "    #", "    #", " ### "},
      {" ### ", "#  # ", "#  # ", " ### ", "   # ", "  #  ", " #   "}}},
}};

// Ink of the glyph at a point between its cells' centres, 0 to 1 (bilinear).
double ink(const Glyph& glyph, double row, double column) {
  const int r = static_cast<int>(std::floor(row));
  const int c = static_cast<int>(std::floor(column));
  const double fr = row - r;
  const double fc = column - c;
  const auto cell = [&glyph](int y, int x) {
    const bool inside = y >= 0 && y < kGlyphRows && x >= 0 && x < kGlyphColumns;
    return inside && glyph[static_cast<std::size_t>(y)][x] == '#' ? 1.0 : 0.0;
  };
  return (1 - fr) * ((1 - fc) * cell(r, c) + fc * cell(r, c + 1)) +
         fr * ((1 - fc) * cell(r + 1, c) + fc * cell(r + 1, c + 1));
}

// About normal with deviation 1: the sum of eight uniform bytes of one draw.
double cheap_normal(Random& random) {
  constexpr double mean = 8 * 127.5;
  const double deviation = std::sqrt(8 * (256.0 * 256.0 - 1) / 12);
  int sum = 0;
  for (std::uint64_t word = random.next(); word != 0; word >>= 8) sum += static_cast<int>(word & 255);
  return (sum - mean) / deviation;
}

void draw(const Glyph& glyph, Random& random, std::uint8_t* pixels) {
  const double rows_each = random.uniform(2.2, 3.4);  // pixels to a cell of the glyph
  const double columns_each = random.uniform(2.4, 4.2);
  const double angle = random.uniform(-0.26, 0.26);
  const double slant = random.uniform(-0.25, 0.25);
  const double down = kSide / 2.0 - 0.5 + random.uniform(-3, 3);
  const double right = kSide / 2.0 - 0.5 + random.uniform(-3, 3);
  const double weight = random.uniform(1.1, 1.9);  // above 1 the strokes grow thicker
  const double brightness = random.uniform(150, 255);
  const double noise = random.uniform(5, 30);
  const double cosine = std::cos(angle);
  const double sine = std::sin(angle);
  for (int y = 0; y < kSide; ++y) {
    for (int x = 0; x < kSide; ++x) {
      const double dy = cosine * (y - down) - sine * (x - right);
      const double dx = sine * (y - down) + cosine * (x - right) + slant * dy;
      const double covered =
          ink(glyph, dy / rows_each + (kGlyphRows - 1) / 2.0, dx / columns_each + (kGlyphColumns - 1) / 2.0);
      const double value = brightness * std::min(1.0, weight * covered) + noise * cheap_normal(random);
      pixels[y * kSide + x] = static_cast<std::uint8_t>(std::clamp(value, 0.0, 255.0));
    }
  }
}

}  // namespace

Images draw_digits(std::size_t count, std::uint64_t seed) {
  Images images;
  images.rows = kSide;
  images.columns = kSide;
  images.pixels.resize(count * images.pixels_each());
  images.labels.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    Random random(seed, i);
    images.labels[i] = static_cast<std::uint8_t>(i % kGlyphs.size());
    draw(kGlyphs[images.labels[i]][random.below(2)], random, images.pixels.data() + i * images.pixels_each());
  }
  return images;
}

Dataset embedded_digits() {
  constexpr std::uint64_t train_seed = 20260101;
  constexpr std::uint64_t test_seed = 20260102;
  return {draw_digits(6000, train_seed), draw_digits(1000, test_seed)};
}

}  // namespace tutti::trainer
