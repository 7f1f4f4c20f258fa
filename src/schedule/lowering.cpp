#include "src/schedule/lowering.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "src/schedule/cells.h"

namespace tutti {

std::vector<std::uint8_t> only_offered(const Plan& plan, int rank, const Program& program) {
  const Cells cells(plan.problem, plan.shape, rank, false);
  std::vector<std::uint8_t> read(cells.size());
  // A barrier's result is scratch block 0.
  if (plan.problem.collective == Collective::barrier && cells.scratch() != 0) {
    std::fill_n(read.begin() + static_cast<std::ptrdiff_t>(cells.first(Place::scratch, 0)), cells.chunks(),
                std::uint8_t{1});
  }
  for (const Step& step : program.steps) {
    for (std::uint32_t o = step.operands; o < step.operands + step.sources; ++o) {
      const Operand& operand = program.operands[o];
      if (operand.place == Place::scratch) cells.each(operand, [&](std::size_t cell) { read[cell] = 1; });
    }
  }
  std::vector<std::uint8_t> offered(program.operands.size());
  for (const Step& step : program.steps) {
    const std::uint32_t first = step.operands + step.sources;
    bool sends = false;
    for (std::uint32_t o = first; o < first + step.destinations; ++o)
      sends = sends || program.operands[o].place == Place::link;
    for (std::uint32_t o = first; o < first + step.destinations; ++o) {
      const Operand& operand = program.operands[o];
      if (!sends || operand.place != Place::scratch) continue;
      bool any = false;
      cells.each(operand, [&](std::size_t cell) { any = any || read[cell] != 0; });
      offered[o] = any ? 0 : 1;
    }
  }
  return offered;
}

namespace {

constexpr std::uint32_t no_step = UINT32_MAX;

/// Which steps use a program's links: a link's messages are in the order of its steps, as it has one lane.
struct Traffic {
  explicit Traffic(const Program& program) : steps(program.links.size()), message(program.operands.size()) {
    for (std::uint32_t s = 0; s < program.steps.size(); ++s) {
      const Step& step = program.steps[s];
      for (std::uint32_t o = step.operands; o < step.operands + step.sources + step.destinations; ++o) {
        if (program.operands[o].place != Place::link) continue;
        std::vector<std::uint32_t>& on_link = steps[program.operands[o].link];
        message[o] = static_cast<std::uint32_t>(on_link.size());
        on_link.push_back(s);
      }
    }
  }
  std::vector<std::vector<std::uint32_t>> steps;  ///< per link
  std::vector<std::uint32_t> message;             ///< per operand on a link: which of its messages it is
};

std::uint32_t find_link(const Program& program, const Link& wanted) {
  const auto found = std::find(program.links.begin(), program.links.end(), wanted);
  return found == program.links.end() ? no_step : static_cast<std::uint32_t>(found - program.links.begin());
}

/// Who writes and who reads each cell.
class Uses {
 public:
  Uses(const Plan& plan, int rank, const Program& program, bool in_place)
      : cells_(plan.problem, plan.shape, rank, in_place),
        writers_(cells_.size()),
        readers_(cells_.size()),
        reader_(cells_.size()) {
    for (std::uint32_t s = 0; s < program.steps.size(); ++s) {
      const Step& step = program.steps[s];
      for (std::uint32_t o = 0; o < std::uint32_t{step.sources} + step.destinations; ++o) {
        const Operand& operand = program.operands[step.operands + o];
        if (operand.place == Place::link) continue;
        cells_.each(operand, [&](std::size_t cell) {
          if (o >= step.sources) {
            ++writers_[cell];
          } else {
            ++readers_[cell];
            reader_[cell] = s;
          }
        });
      }
    }
  }

  /// One step writes the cells of `target`, in the output, and at most one reads them.
  bool simple(const Operand& target) const {
    if (target.place != Place::output) return false;
    bool simple = true;
    cells_.each(target, [&](std::size_t cell) { simple = simple && writers_[cell] == 1 && readers_[cell] <= 1; });
    return simple;
  }
  /// Only one step writes them; whoever reads them out of place does so after it.
  bool written_once(const Operand& target) const {
    if (target.place != Place::output) return false;
    bool once = true;
    cells_.each(target, [&](std::size_t cell) { once = once && writers_[cell] == 1; });
    return once;
  }
  /// The same memory, piece by piece.
  bool same(const Operand& a, const Operand& b) const {
    std::vector<std::size_t> of_a, of_b;
    cells_.each(a, [&](std::size_t cell) { of_a.push_back(cell); });
    cells_.each(b, [&](std::size_t cell) { of_b.push_back(cell); });
    return of_a == of_b;
  }
  /// The one step that reads any of the cells, `no_step` where none does; nothing where there are several.
  std::optional<std::uint32_t> reader(const Operand& target) const {
    std::uint32_t reader = no_step;
    bool one = true;
    cells_.each(target, [&](std::size_t cell) {
      if (readers_[cell] == 0) return;
      one = one && (reader == no_step || reader == reader_[cell]);
      reader = reader_[cell];
    });
    return one ? std::optional(reader) : std::nullopt;
  }

 private:
  const Cells cells_;
  std::vector<std::uint32_t> writers_, readers_, reader_;
};

/// Whether a receive's message is its sender's answer to what one step here sends.
class Answers {
 public:
  Answers(int rank, const Program& program, const ProgramOf& program_of)
      : rank_(rank), program_(program), traffic_(program), program_of_(program_of) {}

  /// `taken`, an operand, is a message; the step `sending` only sends, to the same peer. Then the peer must send the one in
  /// the very step that takes the other.
  bool holds(std::uint32_t taken, std::uint32_t sending) {
    const Step& step = program_.steps[sending];
    const std::uint32_t sent = step.operands + 1;
    const Operand& to = program_.operands[sent];
    if (!program_of_ || step.sources != 1 || step.destinations != 1 || to.place != Place::link) return false;
    const Link& out = program_.links[to.link];
    const Link& in = program_.links[program_.operands[taken].link];
    if (out.peer != in.peer) return false;
    const Peer& peer = of(in.peer);
    const std::uint32_t its_in = find_link(peer.program, {rank_, out.channel, false});
    const std::uint32_t its_out = find_link(peer.program, {rank_, in.channel, true});
    if (its_in == no_step || its_out == no_step) return false;
    const std::vector<std::uint32_t>& takes = peer.traffic.steps[its_in];
    const std::vector<std::uint32_t>& sends = peer.traffic.steps[its_out];
    const std::uint32_t j = traffic_.message[sent];
    const std::uint32_t k = traffic_.message[taken];
    return j < takes.size() && k < sends.size() && takes[j] == sends[k];
  }

 private:
  struct Peer {
    explicit Peer(Program its) : program(std::move(its)), traffic(program) {}
    Program program;
    Traffic traffic;
  };
  const Peer& of(int rank) {
    const auto found = peers_.find(rank);
    return found != peers_.end() ? found->second : peers_.try_emplace(rank, program_of_(rank)).first->second;
  }

  const int rank_;
  const Program& program_;
  const Traffic traffic_;
  const ProgramOf& program_of_;
  std::map<int, Peer> peers_;
};

}  // namespace

std::vector<std::vector<Receive>> receives(const Plan& plan, int rank, const Program& program,
                                           const ProgramOf& program_of) {
  const Uses apart(plan, rank, program, false);
  const Uses in_place(plan, rank, program, true);
  Answers answers(rank, program, program_of);
  std::vector<std::vector<Receive>> out(program.links.size());
  for (std::uint32_t l = 0; l < program.lanes.size(); ++l) {
    for (std::uint32_t s = 0; s < program.lanes[l].count; ++s) {
      const std::uint32_t index = program.lanes[l].first + s;
      const Step& step = program.steps[index];
      for (std::uint32_t o = step.operands; o < step.operands + step.sources; ++o) {
        const Operand& source = program.operands[o];
        if (source.place != Place::link) continue;
        Receive receive{l, s};
        const Operand& target = program.operands[step.operands + 1];
        if (step.sources == 1) {
          receive.early = apart.written_once(target);
          const auto reader = in_place.simple(target) ? in_place.reader(target) : std::nullopt;
          // What the peer reads and writes in one sweep must be the same memory, element for element.
          const auto answered = [&] {
            return answers.holds(o, *reader) && in_place.same(program.operands[program.steps[*reader].operands], target);
          };
          receive.early_in_place = reader && (*reader == no_step || answered());
        }
        out[source.link].push_back(receive);
      }
    }
  }
  return out;
}

}  // namespace tutti
