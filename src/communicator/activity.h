// What a rank is doing: its current and its last completed operation, written on the hot path, read by anybody.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "src/base/descriptor.h"
#include "src/base/wire.h"

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

/// An operation as a rank called it.
struct Called {
  std::uint64_t sequence = UINT64_MAX;    ///< its number; UINT64_MAX: none
  std::uint64_t hash = 0;                 ///< equal on all ranks that called the same
  std::array<std::uint64_t, 4> detail{};  ///< the caller's (type, op, root, count …)
  KindName algorithm;
};

/// A snapshot of what a rank is doing.
struct Activity {
  static constexpr std::size_t kRecent = 8;

  std::uint64_t started = UINT64_MAX;    ///< number of the operation it is in or was in last; UINT64_MAX: none yet
  std::uint64_t completed = UINT64_MAX;  ///< number of its last completed one; UINT64_MAX: none yet
  KindName completed_kind;
  std::array<Called, kRecent> recent;  ///< the last ones that were started, number n at n % kRecent
  std::uint64_t exchanges = 0;         ///< out-of-band exchanges begun; the control plane's own count

  /// Operation `sequence`, nullptr where it was not called yet or is too long ago.
  const Called* called(std::uint64_t sequence) const {
    const Called& there = recent[sequence % kRecent];
    return sequence != UINT64_MAX && there.sequence == sequence ? &there : nullptr;
  }

  /// Within an operation now.
  bool busy() const { return started != UINT64_MAX && (completed == UINT64_MAX || started > completed); }
};

void pack_activity(ByteWriter& out, const Activity& activity);
Activity unpack_activity(ByteReader& in);

/// One page that holds a rank's activity. Its memory is a memfd, so that neighbours on the same machine can map it and
/// still read it when the rank has been killed. One writer at a time; any number of readers, in any process.
class ActivityBoard {
 public:
  /// A board of this process; falls back to plain memory where the system refuses a memfd.
  ActivityBoard();
  /// A read-only view of the board behind descriptor `fd` of process `pid` on this machine; see valid().
  ActivityBoard(int pid, int fd);
  ~ActivityBoard();
  ActivityBoard(const ActivityBoard&) = delete;
  ActivityBoard& operator=(const ActivityBoard&) = delete;

  bool valid() const { return page_ != nullptr; }
  int fd() const { return fd_.get(); }

  /// About 12 plain stores; the caller is this rank's only writer at this time. Numbers follow each other.
  void start(const Called& operation);
  /// The next number, called as the one before: one store.
  void start_again(std::uint64_t sequence) {
    // The version stays: whether a reader sees the number before or this one, all words belong to it.
    if (own_) put(kStarted, sequence);
  }
  /// One store where `kind` is that of the one before.
  void complete(std::uint64_t sequence, const KindName& kind);
  /// As complete, of an operation of the same kind as the one completed before.
  void complete_again(std::uint64_t sequence) {
    if (own_) put(kCompleted, sequence);
  }
  /// A consistent snapshot; nothing where the writer never rests, or died in the middle of writing.
  std::optional<Activity> try_read() const;
  /// As try_read, an Activity of nothing instead of nothing. Enough for a writer that reads its own.
  Activity read() const { return try_read().value_or(Activity{}); }

 private:
  /// What is where in the page's words.
  enum Word : std::size_t { kStarted = 0, kCompleted, kCompletedKind };
  static constexpr std::size_t kCalledWords = 9;
  static constexpr std::size_t kRecentFrom = 8;
  static constexpr std::size_t kWords = kRecentFrom + kCalledWords * Activity::kRecent;
  struct Page {
    std::atomic<std::uint64_t> version;
    std::array<std::atomic<std::uint64_t>, kWords> words;
  };
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free && sizeof(Page) <= 4096);

  void begin();
  void end();
  void put(std::size_t word, std::uint64_t value) {
    // Release: keeps the odd version above, so that a reader that sees this word also sees that it is in the making.
    page_->words[word].store(value, std::memory_order_release);
  }
  void put(const Called& operation);

  Descriptor fd_;
  Mapping mapping_;
  Page* page_ = nullptr;
  bool own_ = false;  ///< and there is a page
  Called last_;       ///< as the owner started it last in full
  KindName completed_kind_;
};

}  // namespace tutti
