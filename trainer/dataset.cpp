#include "trainer/dataset.h"

#include <sys/stat.h>
#include <zlib.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <memory>

namespace tutti::trainer {
namespace {

constexpr std::size_t kLargestFile = std::size_t{4} << 30;

std::uint32_t big_endian(const std::uint8_t* at) {
  return std::uint32_t{at[0]} << 24 | std::uint32_t{at[1]} << 16 | std::uint32_t{at[2]} << 8 | std::uint32_t{at[3]};
}

std::string hexadecimal(std::uint32_t value) {
  constexpr char digits[] = "0123456789abcdef";
  std::string text = "0x00000000";
  for (std::size_t i = 9; i >= 2; --i, value >>= 4) text[i] = digits[value & 15];
  return text;
}

enum class Entry { none, folder, file };
Entry entry_at(const std::string& path) {
  struct stat info;
  if (::stat(path.c_str(), &info) != 0) return Entry::none;
  return S_ISDIR(info.st_mode) ? Entry::folder : Entry::file;
}

struct GzipCloser {
  void operator()(gzFile file) const { gzclose(file); }
};

// Where one of the four files is. MNIST is unpacked as train-images-idx3-ubyte and as train-images.idx3-ubyte; the plain
// file counts before the .gz. Archives that have both put folders of the first name beside files of the second.
Fallible<std::string> find_part(const std::string& folder, const std::string& content, const std::string& format) {
  const std::string hyphened = content + "-" + format;
  const std::string dotted = content + "." + format;
  std::string is_folder;
  for (const std::string& name : {hyphened, dotted, hyphened + ".gz", dotted + ".gz"}) {
    std::string path = folder + "/" + name;
    const Entry entry = entry_at(path);
    if (entry == Entry::file) return path;
    if (entry == Entry::folder && is_folder.empty()) is_folder = path;
  }
  if (!is_folder.empty())
    return refused("\"" + is_folder + "\" is a folder; give --data a folder that holds the file itself");
  return refused("\"" + folder + "\" holds neither " + hyphened + " nor " + dotted +
                 ", plain or with .gz; give --data a folder of MNIST-style IDX files, or leave --data out to train on the "
                 "embedded digits");
}

// Where the files are below a folder: torchvision's datasets keep them in raw, and MNIST's there in MNIST.
std::string idx_folder(const std::string& folder) {
  for (const char* inner : {"/raw", "/MNIST/raw"}) {
    if (find_part(folder, "train-images", "idx3-ubyte").ok()) break;
    if (find_part(folder + inner, "train-images", "idx3-ubyte").ok()) return folder + inner;
  }
  return folder;
}

Fallible<Idx> read_part(const std::string& folder, const std::string& content, int dimensions) {
  const Fallible<std::string> path = find_part(folder, content, "idx" + std::to_string(dimensions) + "-ubyte");
  if (!path.ok()) return path.failure();
  const auto bytes = read_file(*path);
  if (!bytes.ok()) return bytes.failure();
  return parse_idx(*bytes, dimensions, *path);
}

Fallible<Images> read_images(const std::string& folder, const std::string& part) {
  Fallible<Idx> pictures = read_part(folder, part + "-images", 3);
  if (!pictures.ok()) return pictures.failure();
  Fallible<Idx> labels = read_part(folder, part + "-labels", 1);
  if (!labels.ok()) return labels.failure();
  if (pictures->sizes[0] != labels->sizes[0]) {
    return refused("\"" + folder + "\" holds " + std::to_string(pictures->sizes[0]) + " images but " +
                   std::to_string(labels->sizes[0]) + " labels in its " + part +
                   " files; they must come in pairs, so take both files from the same source");
  }
  if (labels->sizes[0] == 0) {
    return refused("\"" + folder + "\" holds no image in its " + part + " files; give --data a folder that has some");
  }
  Images images;
  images.rows = static_cast<int>(pictures->sizes[1]);
  images.columns = static_cast<int>(pictures->sizes[2]);
  images.pixels = std::move(pictures->values);
  images.labels = std::move(labels->values);
  return images;
}

std::string shape(const Images& images) { return std::to_string(images.rows) + " x " + std::to_string(images.columns); }

}  // namespace

int Images::classes() const { return labels.empty() ? 0 : 1 + *std::max_element(labels.begin(), labels.end()); }

Fallible<std::vector<std::uint8_t>> read_file(const std::string& path) {
  const std::unique_ptr<gzFile_s, GzipCloser> file(gzopen(path.c_str(), "rbe"));
  if (!file) {
    const std::string why = std::strerror(errno);
    return refused("cannot open \"" + path + "\": " + why + "; give a file that this user may read");
  }
  std::vector<std::uint8_t> bytes;
  for (;;) {
    // Grown by what really comes, so that a header or a small file that promises much reserves nothing.
    constexpr std::size_t step = std::size_t{1} << 20;
    const std::size_t held = bytes.size();
    bytes.resize(held + step);
    const int got = gzread(file.get(), bytes.data() + held, static_cast<unsigned>(step));
    bytes.resize(held + static_cast<std::size_t>(std::max(got, 0)));
    int code = Z_OK;
    std::string why = gzerror(file.get(), &code);
    if (why.starts_with(path + ": ")) why.erase(0, path.size() + 2);
    if (got < 0 || (code != Z_OK && code != Z_STREAM_END)) {
      const std::string kind =
          code == Z_BUF_ERROR ? "ends in the middle of its gzip stream" : "cannot be read (" + why + ")";
      return refused("\"" + path + "\" " + kind + " after " + std::to_string(bytes.size()) +
                     " bytes of content; fetch the file again");
    }
    if (bytes.size() > kLargestFile) {
      return refused("\"" + path + "\" holds more than 4 GiB, the most that is read; give a smaller file");
    }
    if (got == 0) return bytes;
  }
}

Fallible<Idx> parse_idx(std::span<const std::uint8_t> bytes, int dimensions, const std::string& name) {
  const auto rank = static_cast<std::size_t>(dimensions);
  const std::size_t header = 4 + 4 * rank;
  const std::string file = "\"" + name + "\" ";
  if (bytes.size() < header) {
    return refused(file + "is truncated: " + std::to_string(bytes.size()) + " bytes cannot hold its header of " +
                   std::to_string(header) + "; fetch the file again");
  }
  const std::uint32_t magic = big_endian(bytes.data());
  const std::uint32_t expected = 0x0800U | static_cast<std::uint32_t>(dimensions);
  if (magic != expected) {
    return refused(file + "begins with " + hexadecimal(magic) + ", not with " + hexadecimal(expected) +
                   ", the mark of an IDX file of unsigned bytes in " + std::to_string(dimensions) +
                   (dimensions == 1 ? " dimension" : " dimensions") + "; give the file that its name promises");
  }
  Idx idx;
  std::size_t values = 1;
  std::string sizes;
  for (std::size_t d = 0; d < rank; ++d) {
    const std::size_t size = big_endian(bytes.data() + 4 + 4 * d);
    if (d > 0 && (size == 0 || size > 65536)) {
      return refused(
          file + "says that its images measure " + std::to_string(size) +
          " pixels in one direction, but 1 to 65536 are taken; fetch the file again, or give one of such images");
    }
    values *= size;  // at most 2^32 · 2^16 · 2^16: cannot pass 2^64
    if (d > 0 && values > kLargestFile) values = kLargestFile + 1;
    if (d > 0) sizes += " x ";
    sizes += std::to_string(size);
    idx.sizes.push_back(size);
  }
  const std::size_t held = bytes.size() - header;
  if (held != values) {
    return refused(file + (held < values ? "is truncated: " : "is too long: ") + "its header promises " + sizes +
                   " values, but " + std::to_string(held) + " bytes follow; fetch the file again");
  }
  idx.values.assign(bytes.begin() + static_cast<std::ptrdiff_t>(header), bytes.end());
  return idx;
}

Fallible<Dataset> load_idx_folder(const std::string& folder) {
  if (entry_at(folder) == Entry::none) {
    return refused("the data folder \"" + folder +
                   "\" does not exist; give --data an existing folder, or leave it out to train on the embedded digits");
  }
  const std::string holding = idx_folder(folder);
  Fallible<Images> train = read_images(holding, "train");
  if (!train.ok()) return train.failure();
  Fallible<Images> test = read_images(holding, "t10k");
  if (!test.ok()) return test.failure();
  if (train->rows != test->rows || train->columns != test->columns) {
    return refused("\"" + folder + "\" holds training images of " + shape(*train) + " pixels but test images of " +
                   shape(*test) + "; they must be of one size");
  }
  return Dataset{std::move(*train), std::move(*test)};
}

Normalisation normalisation(const Images& images, std::span<const std::uint32_t> chosen) {
  const std::size_t each = images.pixels_each();
  std::uint64_t sum = 0;
  std::uint64_t squares = 0;  // exact: 2^48 pixels would have to be 255 each for this to wrap
  for (const std::uint32_t image : chosen) {
    const std::uint8_t* pixel = images.pixels.data() + image * each;
    std::uint64_t image_sum = 0;
    std::uint64_t image_squares = 0;
    for (std::size_t i = 0; i < each; ++i) {
      const std::uint32_t value = pixel[i];
      image_sum += value;
      image_squares += value * value;
    }
    sum += image_sum;
    squares += image_squares;
  }
  const double count = std::max(1.0, static_cast<double>(chosen.size() * each));
  const double mean = static_cast<double>(sum) / count;
  const double variance = static_cast<double>(squares) / count - mean * mean;
  const double deviation = variance > 1e-6 ? std::sqrt(variance) : 1.0;
  return {static_cast<float>(1.0 / deviation), static_cast<float>(-mean / deviation)};
}

void take_batch(const Images& images, std::span<const std::uint32_t> chosen, Normalisation normal, std::span<float> out,
                std::span<std::uint8_t> classes) {
  const std::size_t each = images.pixels_each();
  assert(out.size() >= chosen.size() * each && classes.size() >= chosen.size());
  for (std::size_t s = 0; s < chosen.size(); ++s) {
    const std::uint8_t* __restrict pixel = images.pixels.data() + chosen[s] * each;
    float* __restrict to = out.data() + s * each;
    for (std::size_t i = 0; i < each; ++i) to[i] = static_cast<float>(pixel[i]) * normal.scale + normal.offset;
    classes[s] = images.labels[chosen[s]];
  }
}

}  // namespace tutti::trainer
