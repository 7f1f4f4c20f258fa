#include "src/schedule/msccl_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>
#include <pugixml.hpp>
#include <string>
#include <utility>
#include <vector>

#include "src/base/xml_text.h"
#include "src/tables/names.h"

namespace tutti::msccl {
namespace {

constexpr std::size_t longest_text = std::size_t{64} << 20;
constexpr std::uint64_t most_gpus = 4096;
constexpr std::uint64_t most_blocks = 1024;
constexpr std::uint64_t most_channels = 1024;
constexpr std::uint64_t most_chunks = 1 << 16;
constexpr std::uint64_t most_steps = 1 << 20;
/// Chunks of all buffers, and chunks that all steps move: what is looked at one by one.
constexpr std::uint64_t most_cells = 1 << 22;

/// What a step does, as bits.
enum Does : unsigned { sending = 1, receiving = 2, reading = 4, writing = 8, folding = 16 };
struct TypeRow {
  std::string_view name;
  StepType type;
  unsigned does;
};
constexpr TypeRow types[] = {{"nop", StepType::nop, 0},
                             {"cpy", StepType::cpy, reading | writing},
                             {"re", StepType::re, reading | writing | folding},
                             {"s", StepType::s, sending | reading},
                             {"r", StepType::r, receiving | writing},
                             {"rcs", StepType::rcs, receiving | writing | sending},
                             {"rrs", StepType::rrs, receiving | reading | folding | sending},
                             {"rrc", StepType::rrc, receiving | reading | folding | writing},
                             {"rrcs", StepType::rrcs, receiving | reading | folding | writing | sending}};

const TypeRow& row_of(StepType type) { return types[static_cast<std::size_t>(type)]; }
bool does(StepType type, Does what) { return (row_of(type).does & what) != 0; }

/// The name of a collective in MSCCL's runtime: ours without its underscores.
std::string msccl_name(const CollectiveInfo& info) {
  std::string name = info.name;
  std::erase(name, '_');
  return name;
}

/// The collective of that name; nothing where there is none, as for a barrier.
std::optional<Collective> collective_in(std::string_view name) {
  for (const auto& [collective, info] : collectives) {
    const bool known =
        name == msccl_name(info) || (name == info.name && name == "reduce_scatter");  // as msccl-tools writes
    if (info.source != BlockSource::none && known) return collective;
  }
  return std::nullopt;
}

std::vector<std::string> msccl_names() {
  std::vector<std::string> names;
  for (const auto& [collective, info] : collectives) {
    if (info.source != BlockSource::none) names.push_back(msccl_name(info));
  }
  return names;
}

constexpr const char* buffers[] = {"input", "output", "scratch"};

/// A word of the file, fit for a sentence.
std::string quoted(std::string_view word) {
  std::string out = "\"";
  for (const char c : word.substr(0, 40)) out += c >= ' ' && c <= '~' && c != '"' ? c : '?';
  return out + (word.size() > 40 ? "…\"" : "\"");
}

template <typename T>
bool number_in(std::string_view text, T& out) {
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && stop == text.data() + text.size() && !text.empty();
}

/// Reads the elements, top down; the members say where it is.
class Reader {
 public:
  Result<File> run(const pugi::xml_document& document) {
    const pugi::xml_node algorithm = document.child("algo");
    const bool ok = !algorithm ? refuse("it has no <algo>") : read_algorithm(algorithm);
    if (!ok) return Status(TUTTI_INVALID_ARGUMENT, std::move(error_));
    return std::move(file_);
  }

 private:
  /// The sentence begins with where it is.
  bool refuse(const std::string& what) {
    const std::string at = where(rank_, block_, step_);
    error_ = at.empty() ? what : at + " " + what;
    return false;
  }

  template <typename T>
  bool number(const pugi::xml_node& from, const char* name, T& out, std::int64_t least, std::uint64_t most) {
    const pugi::xml_attribute attribute = from.attribute(name);
    if (!attribute) return refuse(fmt::format("{}has no {}", element(from), name));
    std::int64_t value = 0;
    if (!number_in(std::string_view(attribute.value()), value) || value < least ||
        (value >= 0 && static_cast<std::uint64_t>(value) > most)) {
      return refuse(fmt::format("{}has {}={}, which is no number from {} to {}", element(from), name,
                                quoted(attribute.value()), least, most));
    }
    out = static_cast<T>(value);
    return true;
  }
  /// The element, where the beginning of the sentence does not name it.
  std::string element(const pugi::xml_node& from) const {
    const std::string_view name = from.name();
    const bool named = name == "step" ? step_ >= 0 : name == "tb" ? block_ >= 0 : name == "gpu" && rank_ >= 0;
    return named ? "" : rank_ < 0 ? fmt::format("<{}> ", name) : fmt::format("has a <{}> that ", name);
  }
  /// As number, where the attribute is there.
  template <typename T>
  bool optional(const pugi::xml_node& from, const char* name, T& out, std::int64_t least, std::uint64_t most) {
    return !from.attribute(name) || number(from, name, out, least, most);
  }

  bool read_algorithm(const pugi::xml_node& from) {
    const std::string_view name = from.attribute("coll").value();
    const auto known = collective_in(name);
    if (!known) {
      return refuse(fmt::format("the collective {} is none that Tutti has; {} are", quoted(name), listing(msccl_names())));
    }
    file_.name = from.attribute("name").value();
    file_.collective = *known;
    std::uint32_t ranks = 0;
    int in_place = 0;
    const bool read =
        number(from, "ngpus", ranks, 2, most_gpus) && number(from, "nchannels", channels_, 1, most_channels) &&
        number(from, "nchunksperloop", file_.chunks, 1, most_chunks) && number(from, "inplace", in_place, 0, 1);
    if (!read) return false;
    int out_of_place = in_place == 0 ? 1 : 0;  // files of before there was the attribute are right one way
    const bool rest = optional(from, "outofplace", out_of_place, 0, 1) &&
                      optional(from, "minBytes", file_.min_bytes, 0, INT64_MAX) &&
                      optional(from, "maxBytes", file_.max_bytes, 0, INT64_MAX) && read_root(from, ranks);
    if (!rest) return false;
    if (file_.max_bytes == 0) file_.max_bytes = UINT64_MAX;  // 0: no end
    if (file_.min_bytes > file_.max_bytes) return refuse("minBytes is more than maxBytes");
    file_.in_place = in_place != 0;
    file_.out_of_place = out_of_place != 0;
    if (!file_.in_place && !file_.out_of_place) return refuse("it is said to be right neither in place nor out of place");
    const bool all = read_gpus(from, ranks) && check_dependencies();
    file_.work = steps_ + moved_ + cells_;
    return all;
  }

  bool read_root(const pugi::xml_node& from, std::uint32_t ranks) {
    if (!from.attribute("root")) return true;
    if (!rooted(file_.collective)) return refuse("it has a root, and its collective has none");
    return number(from, "root", file_.root, 0, ranks - 1);
  }

  bool read_gpus(const pugi::xml_node& from, std::uint32_t ranks) {
    file_.gpus.resize(ranks);
    std::vector<bool> seen(ranks);
    for (const pugi::xml_node& gpu : from.children("gpu")) {
      if (!number(gpu, "id", rank_, 0, ranks - 1)) return false;
      const auto id = static_cast<std::size_t>(rank_);
      if (seen[id]) return refuse("is there twice");
      seen[id] = true;
      if (!read_gpu(gpu, file_.gpus[id])) return false;
      rank_ = -1;
    }
    const auto missing = std::find(seen.begin(), seen.end(), false);
    if (missing == seen.end()) return true;
    return refuse(fmt::format("there is no <gpu> for rank {} of {}", missing - seen.begin(), ranks));
  }

  bool read_gpu(const pugi::xml_node& from, Gpu& gpu) {
    const bool read = number(from, "i_chunks", gpu.chunks[0], 0, most_chunks) &&
                      number(from, "o_chunks", gpu.chunks[1], 0, most_chunks) &&
                      number(from, "s_chunks", gpu.chunks[2], 0, most_chunks);
    if (!read) return false;
    cells_ += std::uint64_t{gpu.chunks[0]} + gpu.chunks[1] + gpu.chunks[2] + 2 * std::uint64_t{file_.chunks};
    if (cells_ > most_cells) return refuse("has more chunks than can be looked at");
    const auto blocks = from.children("tb");
    const std::size_t count = static_cast<std::size_t>(std::distance(blocks.begin(), blocks.end()));
    if (count > most_blocks) return refuse(fmt::format("has {} thread blocks, more than {}", count, most_blocks));
    gpu.blocks.resize(count);
    std::vector<bool> seen(count);
    for (const pugi::xml_node& block : blocks) {
      if (!number(block, "id", block_, 0, count - 1)) return false;
      const auto id = static_cast<std::size_t>(block_);
      if (seen[id]) return refuse("is there twice");
      seen[id] = true;
      if (!read_block(block, gpu, gpu.blocks[id])) return false;
      block_ = -1;
    }
    return true;
  }

  bool read_block(const pugi::xml_node& from, const Gpu& gpu, ThreadBlock& block) {
    const std::uint64_t last = file_.gpus.size() - 1;
    const bool read = number(from, "send", block.send, -1, last) && number(from, "recv", block.receive, -1, last) &&
                      number(from, "chan", block.channel, 0, channels_ - 1);
    if (!read) return false;
    if (block.send == rank_ || block.receive == rank_) return refuse("has its own rank for a peer");
    for (const pugi::xml_node& step : from.children("step")) {
      step_ = static_cast<std::int64_t>(block.steps.size());
      if (++steps_ > most_steps) return refuse(fmt::format("is one of more than {} steps", most_steps));
      block.steps.emplace_back();
      if (!read_step(step, gpu, block, block.steps.back())) return false;
    }
    step_ = -1;
    return true;
  }

  bool read_step(const pugi::xml_node& from, const Gpu& gpu, const ThreadBlock& block, Step& step) {
    std::int64_t number_in_file = 0;
    if (!number(from, "s", number_in_file, 0, most_steps)) return false;
    if (number_in_file != step_) return refuse(fmt::format("is numbered {}: steps are numbered from 0", number_in_file));
    const std::string_view type = from.attribute("type").value();
    const auto known =
        std::find_if(std::begin(types), std::end(types), [&](const TypeRow& row) { return row.name == type; });
    if (known == std::end(types)) {
      return refuse(fmt::format("is of the type {}; nop, cpy, re, s, r, rcs, rrs, rrc and rrcs are known", quoted(type)));
    }
    step.type = known->type;
    if (!number(from, "depid", step.depends_block, -1, most_blocks)) return false;
    if (step.depends_block >= 0 && !number(from, "deps", step.depends_step, 0, most_steps)) return false;
    if (step.type == StepType::nop) return true;
    if (sends(step.type) && block.send < 0) return refuse("sends, and its thread block has nobody to send to");
    if (receives(step.type) && block.receive < 0)
      return refuse("receives, and its thread block has nobody to receive from");
    if (!number(from, "cnt", step.count, 1, most_chunks)) return false;
    moved_ += step.count;
    if (moved_ > most_cells) return refuse("moves more chunks than can be looked at");
    if (reads_source(step.type) && !read_place(from, "srcbuf", "srcoff", gpu, step.count, step.source)) return false;
    return !writes_destination(step.type) || read_place(from, "dstbuf", "dstoff", gpu, step.count, step.destination);
  }

  bool read_place(const pugi::xml_node& from, const char* buffer, const char* offset, const Gpu& gpu, std::uint32_t count,
                  Place& place) {
    const std::string_view name = from.attribute(buffer).value();
    const std::size_t index = std::string_view("ios").find(name);
    if (name.size() != 1 || index == std::string_view::npos) {
      return refuse(fmt::format("has {}={}, and the buffers are i, o and s", buffer, quoted(name)));
    }
    place.buffer = static_cast<Buffer>(index);
    if (!number(from, offset, place.chunk, 0, most_chunks)) return false;
    if (std::uint64_t{place.chunk} + count <= gpu.chunks[index]) return true;
    return refuse(fmt::format("touches chunk {} of the {}, which has {} here", place.chunk + count - 1, buffers[index],
                              gpu.chunks[index]));
  }

  /// That what is waited for exists: it may stand further down in the file.
  bool check_dependencies() {
    for (std::size_t r = 0; r < file_.gpus.size(); ++r) {
      const std::vector<ThreadBlock>& blocks = file_.gpus[r].blocks;
      for (std::size_t b = 0; b < blocks.size(); ++b) {
        for (std::size_t s = 0; s < blocks[b].steps.size(); ++s) {
          const Step& step = blocks[b].steps[s];
          if (step.depends_block < 0) continue;
          const auto on = static_cast<std::size_t>(step.depends_block);
          rank_ = static_cast<std::int64_t>(r);
          block_ = static_cast<std::int64_t>(b);
          step_ = static_cast<std::int64_t>(s);
          if (on >= blocks.size() || step.depends_step >= blocks[on].steps.size()) {
            return refuse(fmt::format("waits for step {} of thread block {}, which does not exist", step.depends_step, on));
          }
          if (on == b && step.depends_step >= s) return refuse("waits for itself, or for a later step of its thread block");
        }
      }
    }
    return true;
  }

  File file_;
  std::uint32_t channels_ = 1;
  std::uint64_t steps_ = 0;
  std::uint64_t cells_ = 0;
  std::uint64_t moved_ = 0;
  std::int64_t rank_ = -1;
  std::int64_t block_ = -1;
  std::int64_t step_ = -1;
  std::string error_;
};

}  // namespace

bool sends(StepType type) { return does(type, sending); }
bool receives(StepType type) { return does(type, receiving); }
bool reads_source(StepType type) { return does(type, reading); }
bool writes_destination(StepType type) { return does(type, writing); }
bool folds(StepType type) { return does(type, folding); }
const char* name_of(StepType type) { return row_of(type).name.data(); }

std::string where(std::int64_t rank, std::int64_t block, std::int64_t step) {
  if (rank < 0) return {};
  std::string out = fmt::format("rank {}", rank);
  if (block >= 0) out += fmt::format(", thread block {}", block);
  if (step >= 0) out += fmt::format(", step {}", step);
  return out;
}

Result<File> parse(std::string_view text) {
  if (text.size() > longest_text) return Status(TUTTI_INVALID_ARGUMENT, "it is longer than 64 MiB");
  pugi::xml_document document;
  const pugi::xml_parse_result parsed = document.load_buffer(text.data(), text.size());
  if (!parsed) {
    return Status(TUTTI_INVALID_ARGUMENT, fmt::format("byte {}: {}", parsed.offset, parsed.description()));
  }
  if (const std::string fault = xml_fault(text); !fault.empty()) return Status(TUTTI_INVALID_ARGUMENT, fault);
  return Reader().run(document);
}

}  // namespace tutti::msccl
