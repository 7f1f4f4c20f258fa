// The programs of many ranks without keeping a program for each.
//
// Ranks whose programs do the same but for their peers and for which memory they touch share one, their *class*: steps of
// the same lengths, with as many sources and destinations, in the same order. 65,536 ranks of a ring have one class.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/schedule/ir.h"
#include "src/schedule/lowering.h"

namespace tutti {

/// A plan's classes of programs, and for each rank its class and peers. Plain data.
struct ProgramClasses {
  std::vector<Program> programs;          ///< as of the first rank that has it
  std::vector<std::uint32_t> class_of;    ///< by rank: index into programs
  std::vector<std::uint64_t> first_peer;  ///< by rank, and the end: where its peers are in `peers`
  std::vector<std::int32_t> peers;        ///< by rank and link of its class's program; -1 where no step uses the link
  bool by_symmetry = false;               ///< whether one program stands for all, by a symmetry that was believed
  std::uint64_t programs_looked_at = 0;   ///< all ranks', or a sample where a symmetry was believed

  int ranks() const { return static_cast<int>(class_of.size()); }
  const Program& program(int rank) const { return programs[class_of[static_cast<std::size_t>(rank)]]; }
  std::span<const std::int32_t> peers_of(int rank) const {
    const auto r = static_cast<std::size_t>(rank);
    return {peers.data() + first_peer[r], peers.data() + first_peer[r + 1]};
  }
};

/// Finds the program classes of a plan's ranks. program_of: each rank's program, well-formed; it is asked rank by rank, and
/// no more than a program for each class is kept.
///
/// symmetry  sizes of a torus of the ranks (Algorithm::symmetry), or empty. Where they are given and all chunks have the
/// same
///           length, rank 0's program stands for all, its peers moved along the torus; that is checked for a sample of
///           ranks (all of up to 64, and more where programs are short), and not believed where one differs.
/// Memory for the classes, and 4 bytes for each link of each rank.
ProgramClasses classify_programs(const Plan& plan, const ProgramOf& program_of, std::span<const int> symmetry = {});

/// Whether every chunk of every pass is as long as every other of that pass, as symmetry needs.
bool chunks_alike(const Plan& plan);
/// Elements of a block: where its count is a multiple of this, chunks are alike.
std::uint64_t even_count(const Plan& plan);

}  // namespace tutti
