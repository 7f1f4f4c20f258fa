#include "src/base/copy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace tutti {
namespace {

// Every place of the target in its page that is told apart from others, and lengths around those that are.
TEST(Copy, MovesEveryByteAndNoOther) {
  constexpr std::size_t page = 4096;
  constexpr std::size_t longest = 3 * page + 1;
  std::vector<unsigned char> source(longest + page);
  for (std::size_t i = 0; i < source.size(); ++i) source[i] = static_cast<unsigned char>(1 + (i * 7 + i / 251) % 255);
  std::vector<unsigned char> target;
  for (const std::size_t from : {0u, 1u, 4090u}) {
    for (const std::size_t behind : {0u, 1u, 4u, 15u, 31u, 32u, 4080u, 4095u}) {
      for (const std::size_t bytes : {0u, 1u, 1023u, 1024u, 2047u, 2048u, 2049u, 3072u, 4097u, 12289u}) {
        target.assign(longest + 4 * page, 0);
        // Where the target would lie so far behind the source, modulo a page.
        const auto distance = (source.data() + from - target.data()) + static_cast<std::ptrdiff_t>(behind);
        const std::size_t at = static_cast<std::size_t>(distance) % page + page;
        copy_memory(target.data() + at, source.data() + from, bytes);
        ASSERT_TRUE(std::equal(source.begin() + static_cast<std::ptrdiff_t>(from),
                               source.begin() + static_cast<std::ptrdiff_t>(from + bytes),
                               target.begin() + static_cast<std::ptrdiff_t>(at)))
            << from << ' ' << behind << ' ' << bytes;
        const auto touched =
            static_cast<std::size_t>(target.size() - static_cast<std::size_t>(std::count(target.begin(), target.end(), 0)));
        ASSERT_LE(touched, bytes) << from << ' ' << behind << ' ' << bytes;
      }
    }
  }
}

}  // namespace
}  // namespace tutti
