// The IDX reader takes what it should, refuses the rest with a sentence (tests/fuzz/idx damages them at random); the drawn
// digits and the shares of batches are what every rank relies on.
#include "trainer/dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "tests/support/temporary_folder.h"
#include "trainer/digits.h"
#include "trainer/random.h"
#include "trainer/sampling.h"

namespace tutti::trainer {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Bytes = std::vector<std::uint8_t>;

Bytes idx(std::uint32_t magic, const std::vector<std::uint32_t>& sizes, std::size_t values) {
  Bytes bytes;
  const auto put = [&bytes](std::uint32_t word) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<std::uint8_t>(word >> shift));
  };
  put(magic);
  for (const std::uint32_t size : sizes) put(size);
  for (std::size_t i = 0; i < values; ++i) bytes.push_back(static_cast<std::uint8_t>(i % 10));
  return bytes;
}

void write_gzip(const std::string& path, const Bytes& bytes) {
  gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
  gzclose(file);
}

// A folder of 12 training and 6 test images of 4 x 3 pixels.
class IdxFolder : public testing::Test {
 protected:
  void SetUp() override {
    put("train-images-idx3-ubyte", idx(0x803, {12, 4, 3}, 144));
    put("train-labels-idx1-ubyte", idx(0x801, {12}, 12));
    put("t10k-images-idx3-ubyte", idx(0x803, {6, 4, 3}, 72));
    put("t10k-labels-idx1-ubyte", idx(0x801, {6}, 6));
  }
  void put(const std::string& name, const Bytes& bytes) { test::write_bytes(folder_.file(name), bytes); }
  std::string refusal() {
    const auto data = load_idx_folder(folder_.path());
    if (data.ok()) return "it was taken";
    EXPECT_EQ(data.failure().code, TrainerExit::refused);
    return data.failure().sentence;
  }
  test::TemporaryFolder folder_;
};

TEST_F(IdxFolder, IsReadPlainAndGzipped) {
  const auto plain = load_idx_folder(folder_.path());
  ASSERT_TRUE(plain.ok()) << plain.failure().sentence;
  EXPECT_EQ(plain->train.count(), 12U);
  EXPECT_EQ(plain->train.rows, 4);
  EXPECT_EQ(plain->train.columns, 3);
  EXPECT_EQ(plain->train.classes(), 10);
  EXPECT_EQ(plain->test.labels, (Bytes{0, 1, 2, 3, 4, 5}));
  for (const std::string& name : folder_.names()) {
    write_gzip(folder_.file(name + ".gz"), test::read_bytes(folder_.file(name)));
    std::filesystem::remove(folder_.file(name));
  }
  const auto zipped = load_idx_folder(folder_.path());
  ASSERT_TRUE(zipped.ok()) << zipped.failure().sentence;
  EXPECT_EQ(zipped->train.pixels, plain->train.pixels);
}

TEST_F(IdxFolder, IsReadByEitherSpellingOfEachName) {
  const std::vector<std::string> names = folder_.names();
  ASSERT_EQ(names.size(), 4U);
  const auto plain = load_idx_folder(folder_.path());
  ASSERT_TRUE(plain.ok()) << plain.failure().sentence;
  for (const bool zipped : {false, true}) {
    for (const std::string& name : names) {  // one after the other: spellings may be mixed
      std::string dotted = name;
      dotted.replace(dotted.rfind("-idx"), 1, ".");
      if (zipped) {
        write_gzip(folder_.file(dotted + ".gz"), test::read_bytes(folder_.file(dotted)));
        std::filesystem::remove(folder_.file(dotted));
      } else {
        std::filesystem::rename(folder_.file(name), folder_.file(dotted));
      }
      const auto data = load_idx_folder(folder_.path());
      ASSERT_TRUE(data.ok()) << data.failure().sentence;
      EXPECT_EQ(data->train.pixels, plain->train.pixels);
      EXPECT_EQ(data->test.labels, plain->test.labels);
    }
  }
}

TEST_F(IdxFolder, IsReadWhereFoldersOfTheOtherSpellingLieBesideTheFiles) {
  for (const std::string& name : folder_.names()) {
    std::string dotted = name;
    dotted.replace(dotted.rfind("-idx"), 1, ".");
    std::filesystem::rename(folder_.file(name), folder_.file(dotted));
    std::filesystem::create_directory(folder_.file(name));
  }
  const auto data = load_idx_folder(folder_.path());
  EXPECT_TRUE(data.ok()) << data.failure().sentence;
}

TEST_F(IdxFolder, IsRefusedWhereItDoesNotExist) {
  const auto data = load_idx_folder(folder_.file("nowhere"));
  ASSERT_FALSE(data.ok());
  EXPECT_EQ(data.failure().code, TrainerExit::refused);
  EXPECT_THAT(data.failure().sentence, AllOf(HasSubstr("nowhere"), HasSubstr("does not exist"), HasSubstr("--data")));
}

TEST_F(IdxFolder, IsRefusedWhereAFileIsMissing) {
  std::filesystem::remove(folder_.file("t10k-labels-idx1-ubyte"));
  EXPECT_THAT(refusal(), AllOf(HasSubstr("t10k-labels-idx1-ubyte"), HasSubstr("t10k-labels.idx1-ubyte"), HasSubstr(".gz"),
                               HasSubstr("--data")));
}

TEST_F(IdxFolder, IsRefusedWhereAFileIsTruncated) {
  put("train-images-idx3-ubyte", idx(0x803, {12, 4, 3}, 100));
  EXPECT_THAT(refusal(),
              AllOf(HasSubstr("train-images"), HasSubstr("truncated"), HasSubstr("12 x 4 x 3"), HasSubstr("100 bytes")));
  put("train-images-idx3-ubyte", {0, 0, 8});
  EXPECT_THAT(refusal(), AllOf(HasSubstr("truncated"), HasSubstr("3 bytes"), HasSubstr("header of 16")));
  put("train-images-idx3-ubyte", {});
  EXPECT_THAT(refusal(), HasSubstr("truncated"));
}

TEST_F(IdxFolder, IsRefusedWhereAFileIsTooLong) {
  put("t10k-labels-idx1-ubyte", idx(0x801, {6}, 7));
  EXPECT_THAT(refusal(), AllOf(HasSubstr("too long"), HasSubstr("7 bytes")));
}

TEST_F(IdxFolder, IsRefusedWhereTheMagicIsWrong) {
  put("train-images-idx3-ubyte", idx(0x801, {12, 4, 3}, 144));
  EXPECT_THAT(refusal(), AllOf(HasSubstr("0x00000801"), HasSubstr("0x00000803"), HasSubstr("3 dimensions")));
  put("train-images-idx3-ubyte", idx(0xD03, {12, 4, 3}, 144));  // floats
  EXPECT_THAT(refusal(), HasSubstr("0x00000d03"));
}

TEST_F(IdxFolder, IsRefusedWhereCountsDoNotMatch) {
  put("train-labels-idx1-ubyte", idx(0x801, {11}, 11));
  EXPECT_THAT(refusal(), AllOf(HasSubstr("12 images"), HasSubstr("11 labels")));
}

TEST_F(IdxFolder, IsRefusedWhereImagesHaveTwoSizesOrNone) {
  put("t10k-images-idx3-ubyte", idx(0x803, {6, 3, 4}, 72));
  EXPECT_THAT(refusal(), AllOf(HasSubstr("4 x 3"), HasSubstr("3 x 4")));
  put("t10k-images-idx3-ubyte", idx(0x803, {6, 0, 4}, 0));
  EXPECT_THAT(refusal(), HasSubstr("0 pixels"));
  put("t10k-images-idx3-ubyte", idx(0x803, {0, 4, 3}, 0));
  put("t10k-labels-idx1-ubyte", idx(0x801, {0}, 0));
  EXPECT_THAT(refusal(), HasSubstr("no image"));
}

TEST_F(IdxFolder, IsRefusedWhereSizesPromiseMoreThanMemoryHolds) {
  put("train-images-idx3-ubyte", idx(0x803, {0xFFFFFFFF, 65536, 65536}, 10));
  EXPECT_THAT(refusal(), HasSubstr("truncated"));
  put("train-images-idx3-ubyte", idx(0x803, {1, 0x80000000, 2}, 10));
  EXPECT_THAT(refusal(), AllOf(HasSubstr("2147483648 pixels"), HasSubstr("; fetch the file again")));
}

TEST_F(IdxFolder, IsRefusedWhereGzipIsCutOffOrDamaged) {
  const std::string plain = folder_.file("train-images-idx3-ubyte");
  Bytes noise(20000);
  Random random(1);
  for (auto& byte : noise) byte = static_cast<std::uint8_t>(random.next());
  write_gzip(plain + ".gz", noise);
  std::filesystem::remove(plain);
  Bytes zipped = test::read_bytes(plain + ".gz");
  test::write_bytes(plain + ".gz", std::span(zipped).first(zipped.size() / 2));
  EXPECT_THAT(refusal(), AllOf(HasSubstr("train-images-idx3-ubyte.gz"), HasSubstr("middle of its gzip stream")));
  zipped[zipped.size() - 6] ^= 0x55;  // its checksum
  test::write_bytes(plain + ".gz", zipped);
  EXPECT_THAT(refusal(), AllOf(HasSubstr("cannot be read"), HasSubstr("(incorrect data check)")))
      << "the checksum must be looked at";
}

TEST_F(IdxFolder, MayLieWhereTorchvisionPutsIt) {
  for (const char* inner : {"raw", "MNIST/raw"}) {
    const test::TemporaryFolder root;
    std::filesystem::create_directories(root.file(inner));
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      std::filesystem::copy(entry.path(), std::filesystem::path(root.file(inner)) / entry.path().filename());
    }
    const auto data = load_idx_folder(root.path());
    ASSERT_TRUE(data.ok()) << inner << ": " << data.failure().sentence;
    EXPECT_EQ(data->train.labels.size(), 12u);
  }
}

TEST_F(IdxFolder, IsRefusedWhereAFileIsAFolder) {
  std::filesystem::remove(folder_.file("train-images-idx3-ubyte"));
  std::filesystem::create_directory(folder_.file("train-images-idx3-ubyte"));
  EXPECT_THAT(refusal(), AllOf(HasSubstr("train-images-idx3-ubyte"), HasSubstr("is a folder")));
}

TEST(Normalisation, GivesMeanZeroAndVarianceOne) {
  const Images images = draw_digits(50, 3);
  std::vector<std::uint32_t> chosen(30);
  std::iota(chosen.begin(), chosen.end(), 10U);
  const Normalisation normal = normalisation(images, chosen);
  std::vector<float> out(30 * 784);
  Bytes classes(30);
  take_batch(images, chosen, normal, out, classes);
  double sum = 0, squares = 0;
  for (const float x : out) {
    sum += static_cast<double>(x);
    squares += static_cast<double>(x) * static_cast<double>(x);
  }
  EXPECT_NEAR(sum / static_cast<double>(out.size()), 0, 1e-5);
  EXPECT_NEAR(squares / static_cast<double>(out.size()), 1, 1e-5);
  EXPECT_EQ(classes[0], images.labels[10]);
  Images flat{2, 2, Bytes(8, 7), Bytes(2, 0)};
  EXPECT_EQ(normalisation(flat, std::vector<std::uint32_t>{0, 1}).scale, 1.0F);
}

TEST(Digits, AreTheSameForASeedAndBalanced) {
  const Images a = draw_digits(200, 5);
  EXPECT_EQ(a.pixels, draw_digits(200, 5).pixels);
  EXPECT_NE(a.pixels, draw_digits(200, 6).pixels);
  const Images more = draw_digits(300, 5);
  EXPECT_TRUE(std::equal(a.pixels.begin(), a.pixels.end(), more.pixels.begin()))
      << "image i must follow from (seed, i) alone";
  for (std::uint8_t digit = 0; digit < 10; ++digit) EXPECT_EQ(std::count(a.labels.begin(), a.labels.end(), digit), 20);
}

TEST(Digits, AreAllDifferentAndHaveInkAndBackground) {
  const Images images = draw_digits(500, 1);
  std::set<Bytes> seen;
  for (std::size_t i = 0; i < images.count(); ++i) {
    const auto at = images.pixels.begin() + static_cast<std::ptrdiff_t>(i * 784);
    const Bytes picture(at, at + 784);
    EXPECT_TRUE(seen.insert(picture).second) << i;
    EXPECT_GT(std::count_if(picture.begin(), picture.end(), [](int p) { return p > 120; }), 20) << i;
    EXPECT_GT(std::count_if(picture.begin(), picture.end(), [](int p) { return p < 60; }), 300) << i;
  }
}

TEST(Share, CoversEverythingOnceAndDiffersByOneAtMost) {
  for (std::size_t count = 0; count < 70; ++count) {
    for (int ranks = 1; ranks <= 17; ++ranks) {
      std::size_t next = 0, least = count, most = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const SampleRange range = share(count, rank, ranks);
        ASSERT_EQ(range.begin, next);
        next = range.end;
        least = std::min(least, range.size());
        most = std::max(most, range.size());
      }
      ASSERT_EQ(next, count);
      ASSERT_LE(most - least, 1U);
    }
  }
}

TEST(Permutation, HoldsEachOnceAndFollowsFromSeedAndStream) {
  const auto order = permutation(1000, 1, 17);
  EXPECT_EQ(std::set<std::uint32_t>(order.begin(), order.end()).size(), 1000U);
  EXPECT_EQ(order, permutation(1000, 1, 17));
  EXPECT_NE(order, permutation(1000, 2, 17));
  EXPECT_NE(order, permutation(1000, 1, 18));
  EXPECT_TRUE(permutation(0, 1, 1).empty());
}

TEST(DatasetSplit, HoldsOutAFractionAndNeverAll) {
  const DatasetSplit halves = split(11, 0.5, 3);
  EXPECT_EQ(halves.validation.size(), 6U);
  EXPECT_EQ(halves.training.size(), 5U);
  EXPECT_TRUE(split(10, 0, 3).validation.empty());
  EXPECT_EQ(split(1, 0.99, 3).training.size(), 1U);
  std::set<std::uint32_t> all(halves.training.begin(), halves.training.end());
  all.insert(halves.validation.begin(), halves.validation.end());
  EXPECT_EQ(all.size(), 11U);
}

TEST(Random, LooksUniformAndNormal) {
  Random random(42);
  double sum = 0, squares = 0, uniform = 0;
  constexpr int draws = 100000;
  for (int i = 0; i < draws; ++i) {
    const double x = random.normal();
    sum += x;
    squares += x * x;
    uniform += random.uniform();
  }
  EXPECT_NEAR(sum / draws, 0, 0.02);
  EXPECT_NEAR(squares / draws, 1, 0.02);
  EXPECT_NEAR(uniform / draws, 0.5, 0.01);
}

}  // namespace
}  // namespace tutti::trainer
