// Fuzzes the reader of IDX files, plain and gzipped: whole folders are damaged at random, the same way in every run. Each
// is taken or refused with one sentence; what is taken can be trained on without a read past its end.
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/temporary_folder.h"
#include "trainer/dataset.h"
#include "trainer/random.h"

namespace tutti::trainer {
namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes idx(std::uint32_t magic, const std::vector<std::uint32_t>& sizes) {
  Bytes bytes;
  std::size_t values = 1;
  const auto put = [&bytes](std::uint32_t word) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<std::uint8_t>(word >> shift));
  };
  put(magic);
  for (const std::uint32_t size : sizes) {
    put(size);
    values *= size;
  }
  for (std::size_t i = 0; i < values; ++i) bytes.push_back(static_cast<std::uint8_t>(i * 37));
  return bytes;
}

Bytes gzipped(const Bytes& bytes) {
  Bytes zipped(bytes.size() + 1024);
  z_stream stream = {};
  constexpr int gzip_window = 15 + 16;
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, gzip_window, 8, Z_DEFAULT_STRATEGY) != Z_OK) return {};
  stream.next_in = const_cast<Bytef*>(bytes.data());
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = zipped.data();
  stream.avail_out = static_cast<uInt>(zipped.size());
  deflate(&stream, Z_FINISH);
  zipped.resize(stream.total_out);
  deflateEnd(&stream);
  return zipped;
}

void damage(Bytes& bytes, Random& random) {
  constexpr std::uint8_t telling[] = {0, 1, 2, 3, 8, 0x7F, 0x80, 0xFF};
  const auto at = [&] { return static_cast<std::ptrdiff_t>(random.below(bytes.size())); };
  if (bytes.empty()) return;
  switch (random.below(6)) {
    case 0:
      bytes.resize(random.below(bytes.size() + 1));
      break;
    case 1:
      bytes.insert(bytes.begin() + at(), static_cast<std::uint8_t>(random.next()));
      break;
    case 2:
      bytes.erase(bytes.begin() + at());
      break;
    case 3:
      bytes[random.below(std::min<std::size_t>(bytes.size(), 16))] = telling[random.below(sizeof telling)];
      break;
    case 4:
      bytes[random.below(bytes.size())] ^= static_cast<std::uint8_t>(1U << random.below(8));
      break;
    default:
      bytes.insert(bytes.end(), bytes.begin() + at(), bytes.end());
      break;
  }
}

// What training does first with data that was taken: reads every pixel and label.
void use(const Images& images) {
  ASSERT_GT(images.count(), 0U);
  ASSERT_EQ(images.pixels.size(), images.count() * images.pixels_each());
  std::vector<std::uint32_t> all(images.count());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint32_t>(i);
  std::vector<float> inputs(images.pixels.size());
  Bytes classes(images.count());
  take_batch(images, all, normalisation(images, all), inputs, classes);
  EXPECT_EQ(classes, images.labels);
}

TEST(IdxFuzz, EveryDamagedFolderIsTakenOrRefusedWithASentence) {
  const test::TemporaryFolder folder;
  const std::vector<std::pair<std::string, Bytes>> parts = {{"train-images-idx3-ubyte", idx(0x803, {7, 3, 2})},
                                                            {"train-labels-idx1-ubyte", idx(0x801, {7})},
                                                            {"t10k-images-idx3-ubyte", idx(0x803, {4, 3, 2})},
                                                            {"t10k-labels-idx1-ubyte", idx(0x801, {4})}};
  for (const auto& [name, bytes] : parts) test::write_bytes(folder.file(name + ".gz"), gzipped(bytes));
  ASSERT_TRUE(load_idx_folder(folder.path()).ok());
  Random random(20260103);
  std::size_t taken = 0, refusals = 0;
  for (int round = 0; round < 1000; ++round) {
    const auto& [name, whole] = parts[random.below(parts.size())];
    const std::string ending = random.below(2) == 0 ? "" : ".gz";  // a plain file goes before the zipped one beside it
    Bytes bytes = ending.empty() ? whole : gzipped(whole);
    for (std::uint64_t hits = 1 + random.below(3); hits > 0; --hits) damage(bytes, random);
    test::write_bytes(folder.file(name + ending), bytes);
    const auto data = load_idx_folder(folder.path());
    if (data.ok()) {
      ++taken;
      use(data->train);
      use(data->test);
    } else {
      ++refusals;
      ASSERT_EQ(data.failure().code, TrainerExit::refused);
      ASSERT_NE(data.failure().sentence.find(folder.path()), std::string::npos) << data.failure().sentence;
      ASSERT_EQ(data.failure().sentence.find('\n'), std::string::npos) << data.failure().sentence;
    }
    std::filesystem::remove(folder.file(name));
    test::write_bytes(folder.file(name + ".gz"), gzipped(whole));
  }
  // Both must happen often, else the damage is of the wrong kind.
  EXPECT_GT(taken, 50U);
  EXPECT_GT(refusals, 500U);
}

TEST(IdxFuzz, EveryDamagedArrayIsTakenOrRefusedWithASentence) {
  Random random(20260102);
  std::size_t taken = 0, refusals = 0;
  for (int round = 0; round < 20000; ++round) {
    const int dimensions = random.below(2) == 0 ? 1 : 3;
    Bytes bytes = dimensions == 1 ? idx(0x801, {20}) : idx(0x803, {5, 2, 3});
    for (std::uint64_t hits = random.below(4); hits > 0; --hits) damage(bytes, random);
    const auto parsed = parse_idx(bytes, dimensions, "damaged");
    if (parsed.ok()) {
      ++taken;
      std::size_t product = 1;
      for (const std::size_t size : parsed->sizes) product *= size;
      ASSERT_EQ(parsed->values.size(), product);
      ASSERT_EQ(parsed->sizes.size(), static_cast<std::size_t>(dimensions));
    } else {
      ++refusals;
      ASSERT_NE(parsed.failure().sentence.find("\"damaged\""), std::string::npos);
    }
  }
  EXPECT_GT(taken, 4000U);
  EXPECT_GT(refusals, 4000U);
}

}  // namespace
}  // namespace tutti::trainer
