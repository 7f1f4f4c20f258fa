#include "trainer/checkpoint.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "src/program/files.h"
#include "trainer/hash.h"

namespace tutti::trainer {
namespace {

static_assert(std::endian::native == std::endian::little, "checkpoints are little-endian");

// The file: magic, this header, layer widths, parameters, velocity, hash of everything before.
constexpr char kMagic[8] = {'T', 'U', 'T', 'T', 'I', 'F', 'N', 'N'};
struct Header {
  char magic[8];
  std::uint32_t version;
  std::uint32_t widths;
  std::uint32_t loss;
  std::uint32_t epoch;
  std::uint64_t seed;
  double validation;
  std::uint64_t data_hash;
  std::uint64_t parameters;
};
constexpr std::uint32_t kVersion = 1;
constexpr std::uint32_t kMostWidths = 1024;

using Bytes = std::vector<unsigned char>;

void append(Bytes& bytes, const void* data, std::size_t size) {
  const auto* begin = static_cast<const unsigned char*>(data);
  bytes.insert(bytes.end(), begin, begin + size);
}

Bytes encode(const Checkpoint& checkpoint) {
  Header header = {};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.version = kVersion;
  header.widths = static_cast<std::uint32_t>(checkpoint.layers.size());
  header.loss = static_cast<std::uint32_t>(checkpoint.loss);
  header.epoch = checkpoint.epoch;
  header.seed = checkpoint.seed;
  header.validation = checkpoint.validation;
  header.data_hash = checkpoint.data_hash;
  header.parameters = checkpoint.parameters.size();
  Bytes bytes;
  append(bytes, &header, sizeof header);
  append(bytes, checkpoint.layers.data(), checkpoint.layers.size() * sizeof(int));
  append(bytes, checkpoint.parameters.data(), checkpoint.parameters.size() * sizeof(float));
  append(bytes, checkpoint.velocity.data(), checkpoint.velocity.size() * sizeof(float));
  const std::uint64_t hash = hash_bytes(bytes.data(), bytes.size());
  append(bytes, &hash, sizeof hash);
  return bytes;
}

struct FileCloser {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, FileCloser>;

TrainingFailure cannot(const std::string& what, const std::string& path, int error) {
  return {TrainerExit::failed, "cannot " + what + " the checkpoint \"" + path + "\": " + std::strerror(error) +
                                   "; give --checkpoint a file in a folder with room that this user may write to"};
}

// What is wrong with the file, empty where it is whole; fills in the header.
std::string damage(const Bytes& bytes, Header& header) {
  if (bytes.size() < sizeof header) return "is truncated within its header";
  std::memcpy(&header, bytes.data(), sizeof header);
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0) return "is no checkpoint of tutti-train";
  if (header.version != kVersion)
    return "is a checkpoint of version " + std::to_string(header.version) + ", not " + std::to_string(kVersion);
  if (header.widths < 2 || header.widths > kMostWidths || header.parameters > bytes.size()) return "has a damaged header";
  const std::size_t size =
      sizeof header + header.widths * sizeof(int) + 2 * header.parameters * sizeof(float) + sizeof(std::uint64_t);
  if (bytes.size() != size) {
    return (bytes.size() < size ? "is truncated: it has " : "is too long: it has ") + std::to_string(bytes.size()) +
           " of " + std::to_string(size) + " bytes";
  }
  std::uint64_t hash = 0;
  std::memcpy(&hash, bytes.data() + size - sizeof hash, sizeof hash);
  if (hash != hash_bytes(bytes.data(), size - sizeof hash)) return "is damaged: its bytes do not give the hash at its end";
  return "";
}

Fallible<Bytes> read_all(const std::string& path) {
  // Without O_NONBLOCK a pipe would be waited for before it is seen to be one; a regular file is read as ever.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  const File file(fd < 0 ? nullptr : ::fdopen(fd, "rb"));
  if (!file) {
    return refused("cannot open the checkpoint \"" + path + "\" to resume from: " + std::strerror(errno) +
                   "; leave --resume out to start anew");
  }
  struct stat info;
  if (::fstat(fileno(file.get()), &info) != 0 || !S_ISREG(info.st_mode)) {
    return refused("\"" + path + "\" is no regular file; give --checkpoint the file that an earlier run wrote");
  }
  Bytes bytes(static_cast<std::size_t>(info.st_size));
  bytes.resize(bytes.empty() ? 0 : std::fread(bytes.data(), 1, bytes.size(), file.get()));
  return bytes;
}

std::string widths_text(const std::vector<int>& layers) {
  std::string text;
  for (const int width : layers) {
    if (!text.empty()) text += ',';
    text += std::to_string(width);
  }
  return text;
}

}  // namespace

TrainingOutcome write_checkpoint(const std::string& path, const Checkpoint& checkpoint) {
  const Bytes bytes = encode(checkpoint);
  const int error = program::write_file(path, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  return error == 0 ? TrainingOutcome() : cannot("write", path, error);
}

Fallible<Checkpoint> read_checkpoint(const std::string& path) {
  const Fallible<Bytes> bytes = read_all(path);
  if (!bytes.ok()) return bytes.failure();
  Header header;
  const std::string what = damage(*bytes, header);
  if (!what.empty())
    return refused("\"" + path + "\" " + what + "; give another file, or leave --resume out to start anew");
  Checkpoint checkpoint;
  checkpoint.loss = static_cast<LossKind>(header.loss);
  checkpoint.seed = header.seed;
  checkpoint.validation = header.validation;
  checkpoint.data_hash = header.data_hash;
  checkpoint.epoch = header.epoch;
  checkpoint.layers.resize(header.widths);
  checkpoint.parameters.resize(header.parameters);
  checkpoint.velocity.resize(header.parameters);
  const unsigned char* at = bytes->data() + sizeof header;
  const auto take = [&at](void* to, std::size_t size) {
    if (size > 0) std::memcpy(to, at, size);
    at += size;
  };
  take(checkpoint.layers.data(), header.widths * sizeof(int));
  take(checkpoint.parameters.data(), header.parameters * sizeof(float));
  take(checkpoint.velocity.data(), header.parameters * sizeof(float));
  return checkpoint;
}

TrainingOutcome matches(const Checkpoint& saved, const Checkpoint& wanted, const std::string& path) {
  const auto differs = [&path](const std::string& what, const std::string& theirs, const std::string& ours) {
    return refused("the checkpoint \"" + path + "\" was trained with " + what + " " + theirs + ", not " + ours +
                   "; give the same again, or leave --resume out to start anew");
  };
  const auto name = [](LossKind loss) { return loss == LossKind::squared ? "squared" : "cross_entropy"; };
  if (saved.layers != wanted.layers) return differs("--layers", widths_text(saved.layers), widths_text(wanted.layers));
  if (saved.loss != wanted.loss) return differs("--loss", name(saved.loss), name(wanted.loss));
  if (saved.seed != wanted.seed) return differs("--seed", std::to_string(saved.seed), std::to_string(wanted.seed));
  if (saved.validation != wanted.validation) {
    return differs("--validation", std::to_string(saved.validation), std::to_string(wanted.validation));
  }
  if (saved.data_hash != wanted.data_hash)
    return differs("data of hash", hash_text(saved.data_hash), hash_text(wanted.data_hash));
  if (saved.parameters.size() != wanted.parameters.size()) {
    return differs("this many parameters:", std::to_string(saved.parameters.size()),
                   std::to_string(wanted.parameters.size()));
  }
  return {};
}

}  // namespace tutti::trainer
