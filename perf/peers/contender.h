// What `perf/compare` asks of a library under comparison. One program per library, one process per rank: `serve` runs the
// ranks' side of the protocol in docs/benchmarking.md, the same for all, so that none is timed or checked otherwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "perf/check.h"
#include "src/program/exit_code.h"

namespace tutti::perf {

/// Where a rank stands, from the program's arguments (docs/benchmarking.md lists them).
struct ContenderPlace {
  int rank = -1;
  int ranks = 0;
  std::string transport;  ///< "shm" or "tcp"
  std::string folder;     ///< of this run and this contender alone, shared by its ranks: rendezvous files go there
  std::string control;    ///< path of the conductor's Unix socket
  std::vector<int> cpus;  ///< rank r is pinned to cpus[r mod size]; empty: not pinned
  std::vector<std::string> networks;   ///< rank r enters network namespace networks[r mod size]; empty: none
  std::vector<std::string> addresses;  ///< rank r is reached at addresses[r mod size]; empty: the loopback's
  std::vector<std::pair<std::string, std::string>> options;  ///< the contender's own, --set NAME=VALUE

  /// The value of an option, or `otherwise`.
  std::string option(const std::string& name, const std::string& otherwise) const;
  /// Where a rank is reached over TCP.
  std::string address_of(int rank) const;
};

/// A library under comparison. Its methods are called by one thread; those that return a sentence return "" for good.
class Contender {
 public:
  Contender() = default;
  Contender(const Contender&) = delete;
  Contender& operator=(const Contender&) = delete;
  virtual ~Contender() = default;

  /// Joins all ranks. Timed: it is the library's init.
  virtual std::string start(const ContenderPlace& place) = 0;
  /// The library's version and what was set, for the report.
  virtual std::string version() = 0;
  /// The operation of that name, or nullptr. By default tutti-perf's table.
  virtual const BenchedCollective* find(const std::string& name);
  /// Why the library cannot do this operation, or "".
  virtual std::string lacks(const CheckedOperation& operation) = 0;
  /// Buffers, page-aligned and zeroed; the same kind of memory for all libraries but where one is compared for its own.
  virtual std::byte* allocate(uint64_t bytes);
  virtual void release(std::byte* memory, uint64_t bytes);
  /// Called before the operations of a case and after them; `slots` different places will be used, `stride` bytes apart.
  virtual std::string prepare(const CheckedOperation& operation, const Places& first, uint64_t slots, uint64_t stride);
  virtual void finish() {}
  /// One operation, blocking. False on failure, which complaint() then explains.
  virtual bool run(const CheckedOperation& operation, const Places& places) = 0;
  /// `operations` of them back to back, number i at at(i). By default run by run.
  virtual bool run_batch(const CheckedOperation& operation, const std::function<Places(uint64_t)>& at, uint64_t operations);
  /// How the last operation was done, for the report, or "".
  virtual std::string choice() { return ""; }
  virtual std::string complaint() { return "the library reported an error"; }
  /// The exit code that goes with it.
  virtual int exit_code() { return program::kFailed; }
};

/// Serves the conductor until it says quit or goes away. Returns the program's exit status.
int serve(Contender& contender, int argc, char** argv);

}  // namespace tutti::perf
