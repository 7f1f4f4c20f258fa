// Labelled images: from IDX files as MNIST comes in, or drawn by the embedded generator; and how a batch is taken out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trainer/failure.h"

namespace tutti::trainer {

/// Grey images of one size, and the class of each.
struct Images {
  int rows = 0;
  int columns = 0;
  std::vector<std::uint8_t> pixels;  ///< image by image, row-major, 0 is the background
  std::vector<std::uint8_t> labels;

  std::size_t count() const { return labels.size(); }
  std::size_t pixels_each() const { return static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns); }
  /// One more than the largest label, 0 without images.
  int classes() const;
};

/// What is trained on and what is tested with; both hold images of the same size.
struct Dataset {
  Images train;
  Images test;
};

/// One IDX file's array of unsigned bytes (LeCun's format: two zero bytes, type 8, rank, big-endian sizes, data).
struct Idx {
  std::vector<std::size_t> sizes;
  std::vector<std::uint8_t> values;
};

/// Reads `bytes` as an IDX array of `dimensions` sizes (1 or 3). Refuses (exit code 2) a wrong magic, another type or
/// rank, a size of 0 in an image, data that is shorter or longer than the sizes say. `name` is for the sentence.
Fallible<Idx> parse_idx(std::span<const std::uint8_t> bytes, int dimensions, const std::string& name);

/// Reads a whole file, inflating it where it is gzip. Refuses (exit code 2) what cannot be opened, is damaged or cut off,
/// or holds more than 4 GiB.
Fallible<std::vector<std::uint8_t>> read_file(const std::string& path);

/// Reads DIR's train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte, each
/// plain or with .gz, and with "." or "-" before "idx". Refuses besides what parse_idx and read_file refuse: a missing
/// file, as many labels as there are not images, test images of another size than the training ones, no images.
Fallible<Dataset> load_idx_folder(const std::string& folder);

/// pixel ↦ (pixel − mean) / deviation, so that the inputs have mean 0 and variance 1.
struct Normalisation {
  float scale = 1;
  float offset = 0;
};
/// Of the chosen images' pixels together; a constant set gives a scale of 1.
Normalisation normalisation(const Images& images, std::span<const std::uint32_t> chosen);

/// Puts the chosen images, normalised, into `out` (chosen.size() x pixels_each()) and their labels into `classes`.
void take_batch(const Images& images, std::span<const std::uint32_t> chosen, Normalisation normal, std::span<float> out,
                std::span<std::uint8_t> classes);

}  // namespace tutti::trainer
