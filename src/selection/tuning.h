// The tuning table: the cost model's constants as they were measured, in a file that people read, edit and share.
//
//     tutti tuning 1
//     link shm same_numa 2.1e-07 9e-11     seconds a message, seconds a byte; also same_machine, other_machine, other_rack
//     fold 6e-11                           seconds a byte that is folded
//     yield_seconds 1e-06                      seconds for each rank that shares a core, where ranks do
//     ring_share 0.5                       View::ring_share
//     use all_reduce 4 8192 65535 ring     on 4 ranks, for blocks of 8192 to 65535 bytes: what was quickest there
//
// What a table does not name stays as it is built in, and where no `use` fits the cost model chooses by the constants. `#`
// begins a comment. Words are apart by blanks, or by commas or semicolons, as in CSV, and may stand in quotes: a table that
// went through a spreadsheet is read as it comes back. `perf/tune` and `tutti-perf --measure-links` measure and write one,
// `tutti-plan cost --csv` writes the one that is in use.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/status.h"
#include "src/schedule/problem.h"
#include "topology/view.h"

namespace tutti {

/// A row `use`: for blocks of `from` to `to` bytes, on so many ranks, what was quickest.
struct TuningUse {
  Collective collective = Collective::all_reduce;
  int ranks = 0;
  std::uint64_t from = 0;  ///< bytes of a block
  std::uint64_t to = 0;
  std::string algorithm;
};

/// A table. A value; an empty one changes nothing.
class Tuning {
 public:
  /// Errors: TUTTI_INVALID_ARGUMENT naming the file and what is wrong with it, or the line, its text and the accepted form.
  static Result<Tuning> read(const std::string& path);
  /// place: what errors call the text.
  static Result<Tuning> parse(std::string_view text, const std::string& place);

  /// What the table says of a transport between ranks so near to each other; nothing where it says nothing.
  std::optional<LinkEstimate> link(std::string_view transport, LinkClass near) const;
  /// Puts everything but the links into the view, which belong to whatever transports are chosen.
  void apply(View& view) const;
  /// Puts the links in, too: those of shared memory within a machine, of tcp between machines, as no transport was asked.
  /// What is said of other machines is said of those in other racks as well, where the table does not name them.
  void apply_with_links(View& view) const;
  /// The links between the view's ranks of which the table says nothing that apply_with_links would read: "shm same_numa".
  std::vector<std::string> unsaid_links(const View& view) const;
  /// The algorithm that was quickest for a problem like this one, empty where the table does not say.
  std::string_view use(const Problem& problem) const;
  /// The `use` rows of a collective on so many ranks, in the table's order.
  std::vector<TuningUse> uses(Collective collective, int ranks) const;
  /// Puts rows in the place of all `use` rows of a collective on so many ranks.
  void replace_uses(Collective collective, int ranks, std::vector<TuningUse> rows);
  /// Takes a view's constants over: of its links those of the classes that occur between its ranks, named as
  /// apply_with_links reads them.
  void take_constants(const View& view);

  /// The table's lines, constants sorted and `use` lines as they stand, words apart by `separator`: a comma makes it CSV.
  /// Empty where it says nothing.
  std::string text(char separator = ' ') const;
  /// text() in 16 digits, empty where that is: what ranks compare.
  std::string digest() const;

 private:
  std::optional<std::string> take(const std::vector<std::string>& words);
  std::optional<std::string> take_use(const std::vector<std::string>& words);

  std::map<std::pair<std::string, LinkClass>, LinkEstimate> links_;
  std::vector<TuningUse> uses_;
  std::optional<double> fold_;
  std::optional<double> yield_seconds_;
  std::optional<double> ring_share_;
};

}  // namespace tutti
