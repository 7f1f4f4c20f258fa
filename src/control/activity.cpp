#include "src/control/activity.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <iterator>
#include <new>
#include <string>

#include "src/base/memory_file.h"

namespace tutti {

namespace {

constexpr std::size_t kPageBytes = 16384;

/// Whether two runs are of the same operation, wherever in a history.
bool same_call(const Called& a, const Called& b) {
  return a.hash == b.hash && a.detail == b.detail && a.kind == b.kind && a.algorithm == b.algorithm;
}

/// Number of the last operation of `run`, one of an activity's.
std::uint64_t last_of(const Activity& activity, std::vector<Called>::const_iterator run) {
  return std::next(run) == activity.runs.end() ? activity.started : std::next(run)->sequence - 1;
}

/// The run that operation `sequence`, not before the first remembered one, belongs to or would go on.
std::vector<Called>::const_iterator run_of(const Activity& activity, std::uint64_t sequence) {
  const auto after = std::ranges::upper_bound(activity.runs, sequence, {}, &Called::sequence);
  return std::prev(after);
}

/// The hash of the history before operation `sequence`, of which run_of() is known.
std::uint64_t past_of(const Activity& activity, std::uint64_t sequence) {
  const auto run = run_of(activity, sequence);
  return followed_by(run->past, run->hash, sequence - run->sequence);
}

std::uint64_t inode_of(const UniqueFd& file) {
  struct stat about{};
  return file && ::fstat(file.get(), &about) == 0 ? about.st_ino : 0;
}

/// Gives `word` each word that tells what a run, const or not, is of.
template <typename Run, typename Word>
void words_of(Run& run, const Word& word) {
  for (auto& part : run.detail) word(part);
  for (auto& part : run.kind.words) word(part);
  for (auto& part : run.algorithm.words) word(part);
}

}  // namespace

// The steps of one operation are a linear map of the hash, and so are those of 2, 4, 8 and so on.
std::uint64_t followed_by(std::uint64_t past, std::uint64_t operation, std::uint64_t times) {
  std::uint64_t factor = followed_by(1, 0);
  std::uint64_t term = operation;
  for (; times != 0; times >>= 1) {
    if (times % 2 == 1) past = past * factor + term;
    term = term * factor + term;
    factor *= factor;
  }
  return past;
}

const Called* Activity::called(std::uint64_t sequence) const {
  if (runs.empty() || sequence < runs.front().sequence || sequence > started) return nullptr;
  return &*run_of(*this, sequence);
}

KindName Activity::completed_kind() const {
  const Called* const last = completed == UINT64_MAX ? nullptr : called(completed);
  return last != nullptr ? last->kind : KindName();
}

std::optional<Difference> first_difference(const Activity& mine, const Activity& its) {
  if (mine.runs.empty() || its.runs.empty()) return std::nullopt;
  const std::uint64_t last = std::min(mine.started, its.started);
  std::uint64_t at = std::max(mine.runs.front().sequence, its.runs.front().sequence);
  if (at > last + 1) return std::nullopt;  // one has forgotten all that the other has called
  if (past_of(mine, at) != past_of(its, at)) return Difference{at, nullptr, nullptr};
  while (at <= last) {
    const auto my_run = run_of(mine, at);
    const auto its_run = run_of(its, at);
    if (my_run->hash != its_run->hash) return Difference{at, &*my_run, &*its_run};
    at = std::min(last_of(mine, my_run), last_of(its, its_run)) + 1;
  }
  return std::nullopt;
}

// Each call once, then where the runs begin and which call each is of: programs mostly call the same few things in turn.
void pack_activity(ByteWriter& out, const Activity& activity, std::size_t runs) {
  out.u64(activity.started);
  out.u64(activity.completed);
  out.u64(activity.exchanges);
  const std::span<const Called> told = std::span(activity.runs).last(std::min(runs, activity.runs.size()));
  std::vector<Called> calls;
  std::vector<std::uint8_t> which;
  for (const Called& run : told) {
    const auto known = std::ranges::find_if(calls, [&run](const Called& call) { return same_call(call, run); });
    which.push_back(static_cast<std::uint8_t>(known - calls.begin()));
    if (known == calls.end()) calls.push_back(run);
  }
  out.u8(static_cast<std::uint8_t>(calls.size()));
  for (const Called& call : calls) {
    out.u64(call.hash);
    words_of(call, [&out](std::uint64_t word) { out.u64(word); });
  }
  out.u8(static_cast<std::uint8_t>(told.size()));
  if (!told.empty()) out.u64(told.front().past);
  for (std::size_t i = 0; i < told.size(); ++i) {
    out.u64(told[i].sequence);
    out.u8(which[i]);
  }
}

Activity unpack_activity(ByteReader& in) {
  Activity activity;
  activity.started = in.u64();
  activity.completed = in.u64();
  activity.exchanges = in.u64();
  std::vector<Called> calls(in.u8());
  for (Called& call : calls) {
    call.hash = in.u64();
    words_of(call, [&in](std::uint64_t& word) { word = in.u64(); });
  }
  const std::size_t runs = in.u8();
  std::uint64_t past = runs != 0 ? in.u64() : 0;
  for (std::size_t i = 0; i < runs && in.ok(); ++i) {
    const std::uint64_t sequence = in.u64();
    const std::size_t which = in.u8();
    const bool in_order = activity.runs.empty() || sequence > activity.runs.back().sequence;
    if (which >= calls.size() || !in_order || sequence > activity.started || activity.started == UINT64_MAX) {
      in.fail();
      return {};
    }
    if (!activity.runs.empty()) {
      const Called& before = activity.runs.back();
      past = followed_by(past, before.hash, sequence - before.sequence);
    }
    Called& run = activity.runs.emplace_back(calls[which]);
    run.sequence = sequence;
    run.past = past;
  }
  return in.ok() ? activity : Activity();
}

ActivityBoard::ActivityBoard() {
  auto file = create_memory("tutti activity", kPageBytes);
  auto shared = file ? map_memory(file->get(), 0, kPageBytes, true) : file.status();
  if (shared) {
    fd_ = std::move(*file);
    mapping_ = std::move(*shared);
  } else {
    void* const memory = ::mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return;  // valid() says so, and writes go nowhere
    mapping_ = Mapping(memory, kPageBytes);
  }
  static_assert(sizeof(Page) <= kPageBytes);
  page_ = new (mapping_.data()) Page;
  own_ = true;
  put(kStarted, UINT64_MAX);
  put(kCompleted, UINT64_MAX);
}

ActivityBoard::ActivityBoard(int pid, int fd, std::uint64_t inode) {
  const std::string path = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(fd);
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (inode_of(file) != inode) return;
  auto mapping = file ? map_memory(file.get(), 0, kPageBytes, false) : Status(TUTTI_REMOTE_ERROR, "it has ended");
  if (!mapping) return;
  mapping_ = std::move(*mapping);
  page_ = static_cast<Page*>(mapping_.data());
}

ActivityBoard::~ActivityBoard() = default;

std::uint64_t ActivityBoard::inode() const { return inode_of(fd_); }

void ActivityBoard::put(std::size_t at, const Called& run) {
  put(at, run.sequence);
  put(at + 1, run.past);
  put(at + 2, run.hash);
  at += 3;
  words_of(run, [this, &at](std::uint64_t word) { put(at++, word); });
}

Called ActivityBoard::get_run(std::size_t at) const {
  Called run;
  run.sequence = get(at);
  run.past = get(at + 1);
  run.hash = get(at + 2);
  at += 3;
  words_of(run, [this, &at](std::uint64_t& word) { word = get(at++); });
  return run;
}

void ActivityBoard::start(const Called& operation) {
  if (!own_) return;
  if (runs_ == 0 || operation.hash != last_hash_) {
    put(kRunsFrom + runs_ % Activity::kRuns * kCalledWords, operation);
    put(kRunCount, ++runs_);
    last_hash_ = operation.hash;
  }
  put(kStarted, operation.sequence);
}

void ActivityBoard::complete_at_least(std::uint64_t sequence) {
  if (!own_) return;
  std::atomic<std::uint64_t>& word = page_->words[kCompleted];
  // Relaxed: the exchange looks again. Release: as put.
  std::uint64_t known = word.load(std::memory_order_relaxed);
  while ((known == UINT64_MAX || known < sequence) &&
         !word.compare_exchange_weak(known, sequence, std::memory_order_release, std::memory_order_relaxed)) {
  }
}

Activity ActivityBoard::read() const {
  Activity activity;
  if (page_ == nullptr) return activity;
  activity.completed = get(kCompleted);
  activity.started = get(kStarted);
  const std::uint64_t runs = get(kRunCount);
  // The writer may be at the one that takes the place of the oldest.
  const auto oldest = [](std::uint64_t count) { return count - std::min<std::uint64_t>(count, Activity::kRuns - 1); };
  for (std::uint64_t run = oldest(runs); run < runs; ++run) {
    activity.runs.push_back(get_run(kRunsFrom + run % Activity::kRuns * kCalledWords));
  }
  // Whoever saw a word of a later run sees the count that came before that run.
  const std::uint64_t overwritten = std::min(oldest(get(kRunCount)), runs) - oldest(runs);
  activity.runs.erase(activity.runs.begin(), activity.runs.begin() + static_cast<std::ptrdiff_t>(overwritten));
  if (activity.runs.empty()) return activity;
  // A run that is counted has begun, also where its number is not stored yet.
  const std::uint64_t begun = activity.runs.back().sequence;
  if (activity.started == UINT64_MAX || activity.started < begun) activity.started = begun;
  return activity;
}

}  // namespace tutti
