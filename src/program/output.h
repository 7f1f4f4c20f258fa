// Where a program's lines go: the human table or JSON lines on stdout or in a file, errors on stderr, each of them once
// however many ranks there are.
#pragma once

#include <cstdio>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/program/exit_code.h"
#include "src/program/files.h"
#include "src/program/json.h"

namespace tutti::program {

/// A program's way out. One per process, made first of all. Thread safe.
///
/// A stdout that takes no more (a full disk, a closed descriptor) is one sentence and exit code 1. A pipe whose reader
/// has gone ends the program at once by SIGPIPE without a word, as it ends cat or grep.
class Output {
 public:
  /// `program` is the name that errors begin with. Picks up the launcher's error pipe where a launcher of ours started
  /// this process (and takes it out of the environment). Descriptors 0 to 2 that are closed are taken, so that no file or
  /// socket of the program becomes its stdout. From here on an exception that nobody catches is a sentence and exit code 1,
  /// and SIGXFSZ is ignored.
  explicit Output(std::string program);
  ~Output();
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  /// What --json[=FILE] and --quiet said; `json_file` is "-" for stdout.
  void configure(bool json, std::string json_file, bool quiet);
  bool json() const { return json_; }
  bool quiet() const { return quiet_; }

  /// Another file that an option named, and that the program will write or read; an empty path counts for nothing. Before
  /// `open`, which looks at them.
  void writes(const char* option, std::string path) { written_.push_back({option, std::move(path)}); }
  void reads(const char* option, std::string path) { read_.push_back({option, std::move(path)}); }
  /// Makes sure that nothing is written over what is read or written besides (overwritten in files.h), and that the file of
  /// --json can be written, and empties it; nothing for stdout, on other ranks, and in a
  /// child of our launcher, whose parent has done it. Returns kGood, or kWrongUse, which has been told.
  int open();

  /// Says who this process is. Rank 0 alone writes lines and records. Before it is called, this process is rank 0.
  void set_rank(int rank);
  int rank() const { return rank_; }

  /// Text for stdout as it is, whatever was configured: --help and --version. The first error of writing, of this and of
  /// the two below, is told once and makes `result` non-zero.
  void print(std::string_view text);
  /// A line of the human table (its newline is added): nothing with --json or --quiet, nor on other ranks.
  void line(std::string_view text);
  /// A JSON line: nothing without --json, nor on other ranks.
  void record(const JsonObject& object);

  /// Tells an error: `sentence` without the program's name. On stderr, and as a JSON line {"error":..,"exit":..} with
  /// --json (into a file by rank 0 alone, whose file it is). In a child of our launcher it goes to the parent, which
  /// tells the worst one; under a foreign launcher every rank that fails tells its own. Returns `code`.
  int fail(int code, std::string_view sentence);
  /// The same for a status of the library. Returns exit_code(status).
  int fail(const tutti_comm* comm, tutti_status status);
  /// The same two, as `rank`, for ranks that may be threads of this process.
  int fail_as(int rank, int code, std::string_view sentence);
  int fail_as(int rank, const tutti_comm* comm, tutti_status status);
  /// As fail_as, for a rank that failed since another one did and knows no more than that: left out where the errors of
  /// all ranks are collected, the other's among them.
  int echo_as(int rank, int code, std::string_view sentence);

  /// From now on errors say `option` where the library says `setting`: what was given is the option ("--transport"). Each
  /// call adds a pair.
  void call(std::string setting, std::string option);

  /// From now on errors are kept, not told (ranks as threads, or children that report by the launcher's pipe).
  void collect();
  /// Adds an error that another process reported.
  void collected(int code, int rank, std::string sentence);
  /// Tells the worst of the errors kept, of the lowest rank among equals. Returns false where there is none.
  bool tell_worst();

  /// Writes a file that was asked for (write_file in files.h). Returns kGood, or kFailed, which has been told.
  int file(const std::string& path, std::string_view bytes);

  /// `code`, or kFailed where the code is good but an output file could not be written.
  int result(int code);

 private:
  struct Failure {
    int code;
    int rank;
    std::string sentence;
  };

  // All of these with mutex_ held.
  int fail_locked(int rank, int code, std::string_view said);
  void tell(const Failure& failure);
  bool write_json(const std::string& text);
  void write_out(std::string_view text);
  void tell_broken(const std::string& sentence);
  std::string json_refused() const;  // by errno

  const std::string program_;
  std::mutex mutex_;
  bool json_ = false;
  bool quiet_ = false;
  std::string json_file_ = "-";
  std::vector<NamedFile> written_;
  std::vector<NamedFile> read_;
  std::FILE* file_ = nullptr;
  bool broken_ = false;
  int rank_ = 0;
  int launcher_fd_ = -1;
  bool collecting_ = false;
  std::vector<std::pair<std::string, std::string>> called_;  // what call() was given
  std::vector<Failure> failures_;
};

}  // namespace tutti::program
