// What a rank has called and what it is doing: written on the hot path, read by any process of the machine, after a death
// too.
//
// A history is kept as runs of equal operations, so a loop of one call takes one entry, however long it is. Each entry also
// has a hash of all operations before it. Two ranks whose hashes differ called something different, even where both have
// forgotten what.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/byte_codec.h"
#include "src/base/unique_fd.h"

namespace tutti {

/// A short name as words, so that publishing it costs three stores. Longer names are cut at 24 characters.
struct KindName {
  std::array<std::uint64_t, 3> words{};

  KindName() = default;
  constexpr explicit KindName(std::string_view name) {
    for (std::size_t i = 0; i < name.size() && i < 24; ++i) {
      words[i / 8] |= static_cast<std::uint64_t>(static_cast<unsigned char>(name[i])) << (8 * (i % 8));
    }
  }
  /// Every operation compares: no call for three words.
  bool operator==(const KindName& other) const {
    return ((words[0] ^ other.words[0]) | (words[1] ^ other.words[1]) | (words[2] ^ other.words[2])) == 0;
  }
  std::string text() const {
    std::string result;
    for (std::size_t i = 0; i < 24; ++i) {
      const char c = static_cast<char>(words[i / 8] >> (8 * (i % 8)));
      if (c == '\0') break;
      result += c;
    }
    return result;
  }
};

/// The hash of a history that `past` is the hash of, after one more operation. The factor is odd, so histories that differ
/// stay different whatever they go on with. It is a linear congruential generator's (Knuth's MMIX).
constexpr std::uint64_t followed_by(std::uint64_t past, std::uint64_t operation) {
  return past * 6364136223846793005u + operation;
}
/// The same after `times` equal operations, in log2(times) steps.
std::uint64_t followed_by(std::uint64_t past, std::uint64_t operation, std::uint64_t times);

/// A run: operations of successive numbers, all called alike by a rank.
struct Called {
  std::uint64_t sequence = UINT64_MAX;    ///< number of the first
  std::uint64_t past = 0;                 ///< hash of the history before it; see followed_by
  std::uint64_t hash = 0;                 ///< of one of them: equal on all ranks that called the same
  std::array<std::uint64_t, 3> detail{};  ///< the caller's (type and op, root, count)
  KindName kind;                          ///< "all_reduce", …
  KindName algorithm;
};

/// A snapshot of what a rank is doing, and of what it called before.
struct Activity {
  static constexpr std::size_t kRuns = 128;  ///< runs that a rank remembers
  static constexpr std::size_t kBrief = 8;   ///< of these, runs that a heartbeat tells

  std::uint64_t started = UINT64_MAX;    ///< number of the operation it is in or was in last; UINT64_MAX: none yet
  std::uint64_t completed = UINT64_MAX;  ///< number of its last completed one; UINT64_MAX: none yet
  std::uint64_t exchanges = 0;           ///< out-of-band exchanges begun; the control plane's own count
  std::vector<Called> runs;              ///< in the order of their numbers; the last one goes on to `started`

  /// The run of operation `sequence`, nullptr where it was not called yet or is too long ago.
  const Called* called(std::uint64_t sequence) const;
  /// The kind of its last completed operation, empty where that is not remembered.
  KindName completed_kind() const;

  /// Within an operation now.
  bool busy() const { return started != UINT64_MAX && (completed == UINT64_MAX || started > completed); }
};

/// Where two ranks' histories part.
struct Difference {
  /// Number of the first operation that differs. Where `mine` is nullptr that is forgotten: they parted before this one.
  std::uint64_t sequence = 0;
  const Called* mine = nullptr;  ///< the runs that it belongs to, in the two activities
  const Called* its = nullptr;
};

/// Nothing where both called the same, as far as both are known to have got. A rank that is behind differs in nothing.
std::optional<Difference> first_difference(const Activity& mine, const Activity& its);

/// At most the last `runs` of its history.
void pack_activity(ByteWriter& out, const Activity& activity, std::size_t runs = Activity::kRuns);
/// Fails the reader where what it reads is no history.
Activity unpack_activity(ByteReader& in);

/// Pages that hold a rank's activity. Their memory is a memfd, so that neighbours on the same machine can map it and
/// still read it when the rank has been killed. One writer at a time; any number of readers, in any process.
///
/// Readers never wait for the writer, and the writer may die between any two stores:
///   - an entry is written before the number of runs counts it, so nobody looks at one in the making;
///   - entries are written in a ring. A reader that has copied them looks at the number of runs again, and drops those that
///     may have been overwritten meanwhile;
///   - readers load the numbers in the order completed, started, runs, and the writer stores them the other way round. So
///     what a reader knows of a later word holds for the earlier ones, too.
class ActivityBoard {
 public:
  /// A board of this process; falls back to plain memory where the system refuses a memfd.
  ActivityBoard();
  /// A read-only view of the board behind descriptor `fd` of process `pid` on this machine; see valid(). Not valid where
  /// that is not the file `inode` any more.
  ActivityBoard(int pid, int fd, std::uint64_t inode);
  ~ActivityBoard();
  ActivityBoard(const ActivityBoard&) = delete;
  ActivityBoard& operator=(const ActivityBoard&) = delete;

  bool valid() const { return page_ != nullptr; }
  int fd() const { return fd_.get(); }
  /// Number of the file behind fd(), 0 where there is none.
  std::uint64_t inode() const;

  /// Begins an operation. One whose hash is that of the one before costs a comparison and a store, any other about 14
  /// plain stores. The caller is this rank's only writer at this time. Numbers follow each other.
  void start(const Called& operation);
  /// The next number, called as the one before: one store.
  void start_again(std::uint64_t sequence) {
    if (own_) put(kStarted, sequence);
  }
  /// One store.
  void complete(std::uint64_t sequence) {
    if (own_) put(kCompleted, sequence);
  }
  /// Of operations that may overtake each other, from any thread: the number only grows.
  void complete_at_least(std::uint64_t sequence);
  /// What its writer has done: all of an earlier moment, and maybe some of what it did since.
  Activity read() const;

 private:
  /// What is where in the page's words.
  enum Word : std::size_t { kStarted = 0, kCompleted, kRunCount };
  static constexpr std::size_t kCalledWords = 12;
  static constexpr std::size_t kRunsFrom = 8;
  static constexpr std::size_t kWords = kRunsFrom + kCalledWords * Activity::kRuns;
  struct Page {
    std::array<std::atomic<std::uint64_t>, kWords> words;
  };
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

  // Release: a reader that sees this word also sees all that were stored before it.
  void put(std::size_t word, std::uint64_t value) { page_->words[word].store(value, std::memory_order_release); }
  // Acquire: pairs with put. What is loaded after this one is at least as new.
  std::uint64_t get(std::size_t word) const { return page_->words[word].load(std::memory_order_acquire); }
  void put(std::size_t at, const Called& run);
  Called get_run(std::size_t at) const;

  UniqueFd fd_;
  Mapping mapping_;
  Page* page_ = nullptr;
  bool own_ = false;             ///< and there is a page
  std::uint64_t runs_ = 0;       ///< of the owner: how many it has written
  std::uint64_t last_hash_ = 0;  ///< and the last one's hash
};

}  // namespace tutti
