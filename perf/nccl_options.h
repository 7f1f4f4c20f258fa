// Options of nccl-tests and rccl-tests that ask for what this program does anyway, or cannot do.
#pragma once

#include <deque>
#include <span>
#include <string>
#include <vector>

#include "src/program/options.h"

namespace tutti::perf {

/// What becomes of such an option.
enum class Treatment {
  kHolds,     ///< it is so anyway
  kNoEffect,  ///< taken, and said to have no effect
  kRefused,   ///< it asks for something else than what is measured
};

/// A row of the table.
struct NcclOption {
  const char* names;     ///< as program::Options takes them
  const char* shown_as;  ///< the kind of its value in --help
  const char* always;    ///< values that are taken without a word: its default, and what holds here anyway ("0|16")
  Treatment treatment;   ///< of all other values
  const char* reason;    ///< why; part of a sentence
  const char* remedy = "leave it out";  ///< what to do instead, where it is refused
};

/// All of them, in the order of --help.
std::span<const NcclOption> nccl_options();

/// The text given for each row of the table; empty where it was not. A deque, whose elements stay where they are.
using NcclWords = std::deque<std::string>;

/// Declares them. `words` must outlive the parse.
void declare_nccl_options(program::Options& options, NcclWords& words);

/// Reads what was given: adds a line to `notes` for each that has no effect. Returns an empty string or the sentence that
/// refuses one.
std::string read_nccl_options(const NcclWords& words, std::vector<std::string>& notes);

}  // namespace tutti::perf
