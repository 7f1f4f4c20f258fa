// One rank's side of the protocol between `perf/compare` and a contender's ranks.
#pragma once

#include <deque>
#include <map>
#include <string>

#include "perf/peers/barrier.h"
#include "perf/peers/contender.h"
#include "src/program/json.h"

namespace tutti::perf {

/// The words of a command: a verb and NAME=VALUE pairs.
struct Command {
  std::string verb;
  std::map<std::string, std::string> words;

  std::string text(const std::string& name, const std::string& otherwise = "") const;
  uint64_t number(const std::string& name, uint64_t otherwise = 0) const;
};

/// Reads a command; what is no NAME=VALUE is left out.
Command parse_command(const std::string& line);

/// Carries out the conductor's commands on one rank. Not thread safe.
class Session {
 public:
  Session(Contender& contender, const ContenderPlace& place) : contender_(contender), place_(place) {}
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session() { drop(); }

  /// Prepares the ranks' meeting place. Returns "" or a sentence.
  std::string open();

  /// What the command came to: an object with "ok": true and its findings, with "lacks": a sentence where the library
  /// cannot do that, or with "error": a sentence, and "exit" where an operation failed.
  program::JsonObject obey(const Command& command);

 private:
  program::JsonObject start();
  program::JsonObject take(const Command& command);
  program::JsonObject check(const Command& command);
  program::JsonObject time(const Command& command);
  program::JsonObject arrive_late(const Command& command);
  /// What an operation that failed is answered with.
  program::JsonObject failed();
  /// One batch of `batch` operations: nanoseconds, or a negative number where an operation failed.
  double time_batch(uint64_t batch);
  /// Operations back to back on all slots in turn; one, on the first, whose result will be looked at.
  bool operate(uint64_t operations);
  bool operate_once();
  Places places(uint64_t slot) const;
  void list_blocks();
  void fill(uint64_t slots);
  void rewrite(uint64_t slots);
  void drop();

  Contender& contender_;
  const ContenderPlace& place_;
  Barrier barrier_;
  CheckedOperation operation_;
  std::deque<BlockLists> lists_;  ///< of a v-variant, by slot
  uint64_t slots_ = 1;
  uint64_t stride_ = 0;
  uint64_t bytes_ = 0;
  uint64_t offset_ = 0;        ///< of the buffers in what was allocated
  std::byte* send_ = nullptr;  ///< what was allocated
  std::byte* recv_ = nullptr;
  int64_t preempted_ = 0;  ///< in the batches of the last command
  std::string failure_;
};

}  // namespace tutti::perf
