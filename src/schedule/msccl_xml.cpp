#include "src/schedule/msccl_xml.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <tuple>
#include <utility>

#include "src/base/saturating.h"
#include "src/base/text_file.h"
#include "src/schedule/msccl_file.h"
#include "src/schedule/msccl_flow.h"
#include "src/schedule/msccl_programs.h"

namespace tutti {
namespace {

/// What trying one root after the other may take, as File::work counts.
constexpr std::uint64_t most_work = std::uint64_t{1} << 22;
/// Of the plan that is proved; any would do, as no count is part of a proof.
constexpr std::uint64_t proved_count = 1000;
constexpr std::uint64_t proved_slot_bytes = 256 * 1024;

std::string name_from(std::string_view name) {
  std::string out = "msccl:";
  for (const char c : name.substr(0, 100)) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    out += plain || c == '-' || c == '.' ? c : '_';
  }
  return name.empty() ? out + "unnamed" : out;
}

/// FNV-1a over the text and what it was read as: to tell files apart, not to resist anybody.
std::uint64_t digest_of(std::string_view text, int root) {
  std::uint64_t state = 0xcbf29ce484222325u;
  const auto add = [&](unsigned char byte) { state = (state ^ byte) * 0x100000001b3u; };
  for (const char c : text) add(static_cast<unsigned char>(c));
  for (int i = 0; i < 4; ++i) add(static_cast<unsigned char>(static_cast<std::uint32_t>(root) >> (8 * i)));
  return state;
}

/// The step of the file that wrote an output chunk last.
std::pair<std::int64_t, std::int64_t> last_writer(const msccl::Flow& flow, std::size_t rank, std::uint32_t chunk) {
  const std::uint32_t location = flow.locations[rank].number(Buffer::output, chunk);
  std::pair<std::int64_t, std::int64_t> found(-1, -1);
  std::uint64_t latest = 0;
  for (std::size_t b = 0; b < flow.actions[rank].size(); ++b) {
    for (const msccl::FlowAction& action : flow.actions[rank][b]) {
      if (!msccl::writes_destination(action.type) || action.time < latest) continue;
      const bool wrote = std::any_of(action.cells.begin(), action.cells.end(),
                                     [&](const msccl::FlowCell& cell) { return cell.destination.location == location; });
      if (!wrote) continue;
      latest = action.time;
      found = {static_cast<std::int64_t>(b), action.first_step};
    }
  }
  return found;
}

/// The verifier's sentence with the file's own numbers in front.
Status refusal(const Fault& fault, const msccl::Flow& flow, const msccl::Drawn& drawn) {
  if (fault.rank < 0) return Status(TUTTI_INVALID_ARGUMENT, fault.what);
  const auto rank = static_cast<std::size_t>(fault.rank);
  std::int64_t block = -1;
  std::int64_t step = -1;
  if (fault.lane >= 0) {
    const Lane& lane = drawn.programs[rank].lanes[static_cast<std::size_t>(fault.lane)];
    const msccl::StepOrigin origin =
        lane.count == 0 ? msccl::StepOrigin()
                        : drawn.origins[rank][lane.first + static_cast<std::size_t>(std::max<std::int64_t>(fault.step, 0))];
    block = origin.block;
    if (origin.block >= 0) step = origin.step;
  } else if (fault.block >= 0) {
    const std::int64_t chunk = fault.block * flow.of_block + fault.chunk;
    std::tie(block, step) = last_writer(flow, rank, static_cast<std::uint32_t>(chunk));
  }
  return Status(TUTTI_INVALID_ARGUMENT, msccl::where(fault.rank, block, step) + " " + fault.what);
}

/// A file with one root.
class Prover {
 public:
  Prover(const msccl::File& file, int root) : file_(file), root_(root) {}

  Result<MscclAlgorithm> run() {
    auto flow = msccl::follow(file_, root_);
    if (!flow.ok()) return flow.status();
    // Where the file keeps input and output apart, it need not be right in place: it is made so, by as little as it takes.
    constexpr std::array<msccl::Care, 3> apart = {{{}, {true, true, false}, {true, true, true}}};
    constexpr std::array<msccl::Care, 2> aliased = {{{}, {true, false, false}}};
    const std::span<const msccl::Care> cares =
        flow->aliased ? std::span<const msccl::Care>(aliased) : std::span<const msccl::Care>(apart);
    // What is wrong with the last, most careful way is wrong with the file.
    Status refused;
    for (const msccl::Care& care : cares) {
      msccl::Drawn drawn = msccl::draw(*flow, care);
      const Fault fault = prove(drawn);
      if (!fault.any()) return std::move(made_);
      refused = refusal(fault, *flow, drawn);
    }
    return refused;
  }

 private:
  /// Fills made_ where there is no fault.
  Fault prove(msccl::Drawn& drawn) {
    made_ = {};
    made_.name = name_from(file_.name);
    made_.collective = file_.collective;
    made_.ranks = static_cast<int>(file_.gpus.size());
    made_.root = root_;
    made_.min_bytes = file_.min_bytes;
    made_.max_bytes = file_.max_bytes;
    made_.shape = drawn.shape;
    made_.shape.credit = most_credit;
    const auto verdict = [&] { return verify(made_.plan(made_.problem(proved_count), proved_slot_bytes), drawn.programs); };
    // More credit never hurts, so what is wrong at the most is wrong at all.
    if (const Verdict most = verdict(); !most.proved()) return most.fault;
    made_.shape.credit =
        least_credit(made_.plan(made_.problem(proved_count), proved_slot_bytes), drawn.programs, most_credit);
    const Verdict least = verdict();
    made_.proof = least.proof;
    made_.programs = least.proved() ? std::move(drawn.programs) : std::vector<Program>();
    return least.fault;
  }

  const msccl::File& file_;
  const int root_;
  MscclAlgorithm made_;
};

Result<MscclAlgorithm> with_root(const msccl::File& file, std::string_view text, int root) {
  auto made = Prover(file, root).run();
  if (made.ok()) made->digest = digest_of(text, root);
  return made;
}

/// A file that does not say its root: with the first that is right.
Result<MscclAlgorithm> with_its_root(const msccl::File& file, std::string_view text) {
  constexpr const char* remedy = "Give <algo> its root=\"…\"";
  auto roots = msccl::find_roots(file);
  if (!roots.ok()) return roots.status();
  if (roots->empty()) roots->push_back(0);  // for the sentence
  Status refused;
  std::uint64_t work = 0;
  for (const int root : *roots) {
    if ((work += file.work) > most_work && root != roots->front()) {
      return Status(TUTTI_INVALID_ARGUMENT, fmt::format("any of {} ranks may be its root, too many to try", roots->size()),
                    remedy);
    }
    auto made = with_root(file, text, root);
    if (made.ok()) return made;
    if (refused.ok()) refused = made.status();
  }
  return Status(TUTTI_INVALID_ARGUMENT,
                fmt::format("with root {} {}, and it is right with no other root", roots->front(), refused.error().message),
                remedy);
}

}  // namespace

bool MscclAlgorithm::is_for(const Problem& wanted) const {
  return wanted.collective == collective && wanted.ranks == ranks && (!rooted(collective) || wanted.root == root);
}

bool MscclAlgorithm::fits(const Problem& wanted) const {
  if (!is_for(wanted)) return false;
  const std::uint64_t bytes =
      saturating_product(bytes_of(wanted.count, wanted.type), info_of(collective).largest_blocks(ranks));
  return bytes >= min_bytes && bytes <= max_bytes;
}

Plan MscclAlgorithm::plan(const Problem& wanted, std::uint64_t slot_bytes) const {
  Plan plan;
  plan.problem = wanted;
  plan.algorithm = name;
  plan.shape = shape;
  finish_plan(plan, slot_bytes);
  return plan;
}

Problem MscclAlgorithm::problem(std::uint64_t count) const {
  Problem problem;
  problem.collective = collective;
  problem.ranks = ranks;
  problem.root = root;
  problem.count = count;
  return problem;
}

Result<MscclAlgorithm> parse_msccl(std::string_view text) {
  const auto file = msccl::parse(text);
  if (!file.ok()) return file.status();
  if (rooted(file->collective) && file->root < 0) return with_its_root(*file, text);
  return with_root(*file, text, std::max(file->root, 0));
}

Result<MscclAlgorithm> read_msccl(const std::string& path) {
  const auto named = [&](const Status& status) {
    return Status(status.code(), fmt::format("{} is refused: {}", path, status.error().message), status.error().remedy);
  };
  const auto text = read_text_file(path);
  if (!text.ok()) return named(Status(text.status().code(), "it cannot be read: " + text.status().error().message));
  auto made = parse_msccl(*text);
  if (!made.ok()) return named(made.status());
  return made;
}

}  // namespace tutti
