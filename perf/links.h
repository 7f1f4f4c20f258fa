// tutti-perf --measure-links: what messages between ranks cost, as a tuning table.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "perf/options.h"
#include "src/program/output.h"
#include "src/program/run_ranks.h"

namespace tutti::perf {

/// What was measured between two ranks.
struct LinkMeasured {
  std::string transport;
  std::string nearness;   ///< as tuning tables name a class of links: "same_numa", …
  double alpha = 0;       ///< seconds a message
  double beta = 0;        ///< seconds a byte
  double unrest = 1;      ///< what the middle batch took of the quickest one's time, where that is most
  bool no_slope = false;  ///< more bytes took no longer, so that beta is all of a message's time
};

/// The pairs of ranks that are measured, the lower rank first: all of up to 8 ranks. Of more they are a sample, whose
/// distances are the powers of two, in the order of ranks and, where that is another, in that of their machines: 32 pairs,
/// or as many as there are distances. machines: by rank, the same number for ranks of one machine. Pure.
std::vector<std::pair<int, int>> pairs_of(const std::vector<int>& machines);

/// The table's lines for what was measured: of each transport and class the medians over its pairs, below a comment that
/// has their number, the least and the most. about: what the first comment says of where and when. Pure.
std::string table_of(const std::vector<LinkMeasured>& pairs, const std::string& about);

/// Measures the links between the job's ranks, a pair at a time while the others wait, and writes the table on rank 0, at
/// the end. Collective: every rank calls it. Returns the exit code; failures have been told.
int measure_links(const Request& request, const program::RankMember& member, program::Output& output);

}  // namespace tutti::perf
