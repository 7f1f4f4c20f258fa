#include "src/communicator/activity.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <new>
#include <string>

#include "src/base/memory_file.h"

namespace tutti {

namespace {
enum CalledWord : std::size_t { kSequence = 0, kHash, kDetail, kAlgorithm = 6 };
constexpr std::size_t kPageBytes = 4096;
}  // namespace

void pack_activity(ByteWriter& out, const Activity& activity) {
  out.u64(activity.started);
  out.u64(activity.completed);
  for (const auto word : activity.completed_kind.words) out.u64(word);
  for (const Called& called : activity.recent) {
    out.u64(called.sequence);
    out.u64(called.hash);
    for (const auto word : called.detail) out.u64(word);
    for (const auto word : called.algorithm.words) out.u64(word);
  }
  out.u64(activity.exchanges);
}

Activity unpack_activity(ByteReader& in) {
  Activity activity;
  activity.started = in.u64();
  activity.completed = in.u64();
  for (auto& word : activity.completed_kind.words) word = in.u64();
  for (Called& called : activity.recent) {
    called.sequence = in.u64();
    called.hash = in.u64();
    for (auto& word : called.detail) word = in.u64();
    for (auto& word : called.algorithm.words) word = in.u64();
  }
  activity.exchanges = in.u64();
  return activity;
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
  page_ = new (mapping_.data()) Page;
  own_ = true;
  begin();
  put(kStarted, UINT64_MAX);
  put(kCompleted, UINT64_MAX);
  for (std::size_t i = 0; i < Activity::kRecent; ++i) put(kRecentFrom + i * kCalledWords + kSequence, UINT64_MAX);
  end();
}

ActivityBoard::ActivityBoard(int pid, int fd) {
  const std::string path = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(fd);
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  auto mapping = file ? map_memory(file.get(), 0, kPageBytes, false) : Status(TUTTI_REMOTE_ERROR, "it has ended");
  if (!mapping) return;
  mapping_ = std::move(*mapping);
  page_ = static_cast<Page*>(mapping_.data());
}

ActivityBoard::~ActivityBoard() = default;

// The version is odd while the words change. Each word is stored with release and loaded with acquire, which on x86 costs
// nothing and keeps them from moving out between the two stores, or loads, of the version.
void ActivityBoard::begin() {
  // Relaxed load: only this writer changes it. The odd version cannot sink below the first word's release store.
  page_->version.store(page_->version.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

void ActivityBoard::end() {
  // Release: whoever sees the even version sees the words of it.
  page_->version.store(page_->version.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

void ActivityBoard::put(const Called& operation) {
  const std::size_t at = kRecentFrom + operation.sequence % Activity::kRecent * kCalledWords;
  put(at + kSequence, operation.sequence);
  put(at + kHash, operation.hash);
  for (std::size_t i = 0; i < operation.detail.size(); ++i) put(at + kDetail + i, operation.detail[i]);
  for (std::size_t i = 0; i < operation.algorithm.words.size(); ++i) put(at + kAlgorithm + i, operation.algorithm.words[i]);
}

void ActivityBoard::start(const Called& operation) {
  if (!own_) return;
  begin();
  // What was only counted since is written out, as far as it is remembered: readers could not tell it any more.
  const std::uint64_t first = operation.sequence - std::min<std::uint64_t>(operation.sequence, Activity::kRecent - 1);
  if (last_.sequence != UINT64_MAX) {
    for (std::uint64_t n = std::max(last_.sequence + 1, first); n < operation.sequence; ++n) {
      last_.sequence = n;
      put(last_);
    }
  }
  last_ = operation;
  put(kStarted, operation.sequence);
  put(operation);
  end();
}

void ActivityBoard::complete(std::uint64_t sequence, const KindName& kind) {
  if (!own_) return;
  if (kind == completed_kind_) return put(kCompleted, sequence);
  begin();
  put(kCompleted, sequence);
  for (std::size_t i = 0; i < kind.words.size(); ++i) put(kCompletedKind + i, kind.words[i]);
  end();
  completed_kind_ = kind;
}

namespace {

// Adds those that were only counted: they are like the last one that was written in full.
void fill_in(Activity& activity) {
  const Called* latest = nullptr;
  for (const Called& called : activity.recent) {
    if (called.sequence != UINT64_MAX && (latest == nullptr || called.sequence > latest->sequence)) latest = &called;
  }
  if (latest == nullptr || activity.started == UINT64_MAX) return;
  Called counted = *latest;
  const std::uint64_t first = activity.started - std::min<std::uint64_t>(activity.started, Activity::kRecent - 1);
  for (std::uint64_t n = std::max(counted.sequence + 1, first); n <= activity.started; ++n) {
    counted.sequence = n;
    activity.recent[n % Activity::kRecent] = counted;
  }
}

}  // namespace

std::optional<Activity> ActivityBoard::try_read() const {
  Activity activity;
  if (page_ == nullptr) return activity;
  std::array<std::uint64_t, kWords> words{};
  bool whole = false;
  for (int tries = 0; tries < 1000 && !whole; ++tries) {
    // Acquire: the words are read after the version.
    const std::uint64_t before = page_->version.load(std::memory_order_acquire);
    // Acquire on each word: the second look at the version comes after them.
    for (std::size_t i = 0; i < kWords; ++i) words[i] = page_->words[i].load(std::memory_order_acquire);
    whole = before % 2 == 0 && page_->version.load(std::memory_order_relaxed) == before;
    if (!whole && tries >= 100) ::sched_yield();  // the writer may wait for this very core; or it died in the middle
  }
  if (!whole) return std::nullopt;
  activity.started = words[kStarted];
  activity.completed = words[kCompleted];
  for (std::size_t i = 0; i < 3; ++i) activity.completed_kind.words[i] = words[kCompletedKind + i];
  for (std::size_t n = 0; n < Activity::kRecent; ++n) {
    const std::uint64_t* const from = &words[kRecentFrom + n * kCalledWords];
    Called& called = activity.recent[n];
    called.sequence = from[kSequence];
    called.hash = from[kHash];
    for (std::size_t i = 0; i < called.detail.size(); ++i) called.detail[i] = from[kDetail + i];
    for (std::size_t i = 0; i < called.algorithm.words.size(); ++i) called.algorithm.words[i] = from[kAlgorithm + i];
  }
  fill_in(activity);
  return activity;
}

}  // namespace tutti
