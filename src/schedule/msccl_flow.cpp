#include "src/schedule/msccl_flow.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "src/schedule/expressions.h"
#include "src/schedule/msccl_races.h"

namespace tutti::msccl {
namespace {

/// Nops that are looked at for whoever waits for them: many thread blocks may wait for the end of one long row.
constexpr std::uint64_t most_nops = 1 << 22;

constexpr const char* buffer_names[] = {"input", "output", "scratch"};

std::string text_of(Place place) {
  return fmt::format("{} chunk {}", buffer_names[static_cast<std::size_t>(place.buffer)], place.chunk);
}

/// Who last wrote a location: nobody where block is `nothing`.
struct Writer {
  std::uint32_t block = nothing;
  std::uint32_t action = 0;
};

/// A location's content as the run goes on.
struct Content {
  Value value = unwritten;
  std::uint32_t lowest = 0;  ///< rank in the value
  Version version;
  Writer writer;
};

/// A message's chunk.
struct Piece {
  Value value = unwritten;
  std::uint32_t lowest = 0;
  std::uint32_t chunk = 0;
};

/// A rank's thread block.
struct LaneName {
  std::uint32_t rank = 0;
  std::uint32_t block = 0;
  auto operator<=>(const LaneName&) const = default;
};

/// Who is looked at next, as if all were asked round after round whether they can go on, and those that were not woken
/// left out: what is refused first does not depend on how the waiting is done.
class Rounds {
 public:
  void wake(LaneName lane) { (started_ && lane <= current_ ? next_ : now_).insert(lane); }
  std::optional<LaneName> next() {
    if (now_.empty()) {
      now_.swap(next_);
      started_ = false;
    }
    if (now_.empty()) return std::nullopt;
    current_ = *now_.begin();
    started_ = true;
    now_.erase(now_.begin());
    return current_;
  }

 private:
  std::set<LaneName> now_, next_;
  LaneName current_;
  bool started_ = false;
};

/// Builds a Flow in the order of its methods; the first that refuses says so in `error`.
class Follower {
 public:
  /// root: -1 for a run that is to find it, in which every rank has what a root has.
  Follower(const File& file, int root) : file_(file) {
    flow_.problem.collective = file.collective;
    flow_.problem.ranks = static_cast<std::int32_t>(file.gpus.size());
    flow_.problem.root = root;
    flow_.problem.count = 1;
    flow_.aliased = file.in_place && !file.out_of_place;
  }

  Result<Flow> run() {
    const bool ok = lay_out() && make_actions() && pair_messages() && check_order() && execute() && check_promises();
    if (!ok) return Status(TUTTI_INVALID_ARGUMENT, std::move(error_));
    return std::move(flow_);
  }

  Result<std::vector<int>> roots() {
    const bool ok = lay_out() && make_actions() && pair_messages() && execute();
    if (!ok) return Status(TUTTI_INVALID_ARGUMENT, std::move(error_));
    if (info_of(file_.collective).source == BlockSource::root) return giver();
    std::vector<int> found;
    for (std::uint32_t r = 0; r < ranks(); ++r) {
      bool all = true;
      for (std::uint32_t c = 0; all && c < flow_.locations[r].outputs(); ++c) all = keeps(output(r, c), promised(r, c), c);
      if (all) found.push_back(static_cast<int>(r));
    }
    return found;
  }

 private:
  bool refuse(std::size_t rank, std::int64_t block, std::int64_t step, const std::string& what) {
    error_ = where(static_cast<std::int64_t>(rank), block, step) + " " + what;
    return false;
  }
  bool refuse(std::size_t rank, std::size_t block, const FlowAction& action, const std::string& what) {
    return refuse(rank, static_cast<std::int64_t>(block), action.first_step, what);
  }

  std::size_t ranks() const { return file_.gpus.size(); }

  /// The problem as a rank sees it.
  Problem problem_of(std::size_t rank) const {
    Problem problem = flow_.problem;
    if (problem.root < 0) problem.root = static_cast<std::int32_t>(rank);
    return problem;
  }

  /// Whose input rank 0 ends with: its own, where nobody wrote its output.
  std::vector<int> giver() const {
    const Content& content = output(0, 0);
    return {content.value == unwritten ? 0 : static_cast<int>(content.lowest)};
  }

  const Content& output(std::uint32_t rank, std::uint32_t chunk) const {
    return contents_[rank][flow_.locations[rank].number(Buffer::output, chunk)];
  }

  FlowAction& action_at(std::size_t rank, Wait at) { return flow_.actions[rank][at.block][at.action]; }

  bool lay_out() {
    const Collective collective = file_.collective;
    const std::uint32_t blocks = info_of(collective).largest_blocks(static_cast<int>(ranks()));
    if (file_.chunks % blocks != 0) {
      error_ = fmt::format("nchunksperloop is {}, which is no multiple of the {} blocks of {}", file_.chunks, blocks,
                           tutti::name_of(collective));
      return false;
    }
    flow_.of_block = file_.chunks / blocks;
    for (std::size_t r = 0; r < ranks(); ++r) {
      for (const Buffer buffer : {Buffer::input, Buffer::output}) {
        const std::uint32_t has = blocks_of(problem_of(r), buffer, static_cast<int>(r)) * flow_.of_block;
        const std::uint32_t said = file_.gpus[r].chunks[static_cast<std::size_t>(buffer)];
        if (has == 0 || said <= has) continue;
        return refuse(r, -1, -1,
                      fmt::format("has {} chunks of {}, and the collective gives it {}", said,
                                  buffer_names[static_cast<std::size_t>(buffer)], has));
      }
      flow_.locations.emplace_back(problem_of(r), static_cast<int>(r), file_.gpus[r], flow_.of_block, flow_.aliased);
    }
    return true;
  }

  /// Whether a fold goes on with the fold before it: MSCCL's runtime takes them together, too.
  static bool continues(const FlowAction& action, const Step& step) {
    return action.type == StepType::re && step.type == StepType::re && step.depends_block < 0 &&
           action.count == step.count && action.destination.buffer == step.destination.buffer &&
           action.destination.chunk == step.destination.chunk;
  }

  bool make_actions() {
    flow_.actions.resize(ranks());
    for (std::size_t r = 0; r < ranks(); ++r) {
      for (const ThreadBlock& block : file_.gpus[r].blocks) {
        std::vector<FlowAction>& actions = flow_.actions[r].emplace_back();
        for (std::uint32_t s = 0; s < block.steps.size(); ++s) {
          const Step& step = block.steps[s];
          if (step.type == StepType::nop || flow_.locations[r].copies_onto_itself(step)) continue;
          if (!actions.empty() && actions.back().last_step + 1 == s && continues(actions.back(), step)) {
            actions.back().sources.push_back(step.source);
            actions.back().last_step = s;
            continue;
          }
          FlowAction& action = actions.emplace_back();
          action.first_step = action.last_step = s;
          action.type = step.type;
          action.count = step.count;
          action.destination = step.destination;
          if (step.type == StepType::re) action.sources.push_back(step.destination);
          if (reads_source(step.type)) action.sources.push_back(step.source);
        }
      }
    }
    for (std::size_t r = 0; r < ranks(); ++r) {
      for (std::uint32_t b = 0; b < flow_.actions[r].size(); ++b) {
        if (!find_waits(r, b)) return false;
      }
    }
    return true;
  }

  /// What a thread block has waited for so far: it need not wait for it again.
  struct Waited {
    std::map<std::uint32_t, std::uint32_t> actions;  // how many of each thread block
    std::map<Wait, std::uint32_t> nops;              // how far those behind an action were looked at
  };

  /// A step waits for what it names, and for what the nops between it and the action before it name.
  bool find_waits(std::size_t rank, std::uint32_t block) {
    const std::vector<Step>& steps = file_.gpus[rank].blocks[block].steps;
    Waited waited;
    std::uint32_t from = 0;
    for (FlowAction& action : flow_.actions[rank][block]) {
      std::set<std::uint32_t> anew;  // thread blocks
      for (std::uint32_t s = from; s <= action.first_step; ++s) {
        if (!gather(rank, steps[s], waited, anew)) return refuse(rank, block, s, "waits by way of too many nops");
      }
      for (const std::uint32_t other : anew) {
        if (other != block) action.waits.push_back({other, waited.actions[other] - 1});
      }
      from = action.last_step + 1;
    }
    return true;
  }

  /// The actions that must have run when `step`'s dependency is met. A nop stands for the action before it, and for what it
  /// waits for itself. False where too many nops would have to be looked at.
  bool gather(std::size_t rank, const Step& step, Waited& waited, std::set<std::uint32_t>& anew) {
    std::vector<Wait> left;
    const auto visit = [&](const Step& from) {
      if (from.depends_block >= 0) left.push_back({static_cast<std::uint32_t>(from.depends_block), from.depends_step});
    };
    visit(step);
    while (!left.empty()) {
      const auto [block, index] = left.back();
      left.pop_back();
      const std::vector<FlowAction>& actions = flow_.actions[rank][block];
      const auto after = std::upper_bound(actions.begin(), actions.end(), index,
                                          [](std::uint32_t s, const FlowAction& action) { return s < action.first_step; });
      const auto count = static_cast<std::uint32_t>(after - actions.begin());
      std::uint32_t& known = waited.actions.try_emplace(block, 0).first->second;
      if (known < count) anew.insert(block);
      known = std::max(known, count);
      const std::uint32_t behind = count == 0 ? 0 : std::prev(after)->last_step + 1;
      if (behind > index) continue;
      std::uint32_t& nop = waited.nops.try_emplace({block, count}, behind).first->second;
      for (; nop <= index; ++nop) {
        if (++nops_ > most_nops) return false;
        visit(file_.gpus[rank].blocks[block].steps[nop]);
      }
    }
    return true;
  }

  /// The two ends of a link, in order.
  struct Ends {
    std::uint32_t send_block = nothing, receive_block = nothing;
    std::vector<std::uint32_t> sent, received;  ///< actions
  };

  bool pair_messages() {
    std::map<std::tuple<std::size_t, std::size_t, std::uint32_t>, Ends> links;  // from, to, channel
    for (std::size_t r = 0; r < ranks(); ++r) {
      for (std::uint32_t b = 0; b < flow_.actions[r].size(); ++b) {
        const ThreadBlock& block = file_.gpus[r].blocks[b];
        for (std::uint32_t a = 0; a < flow_.actions[r][b].size(); ++a) {
          const FlowAction& action = flow_.actions[r][b][a];
          if (sends(action.type)) {
            Ends& ends = links[{r, static_cast<std::size_t>(block.send), block.channel}];
            if (!claim(r, b, action, "sends to", block.send, ends.send_block)) return false;
            ends.sent.push_back(a);
          }
          if (receives(action.type)) {
            Ends& ends = links[{static_cast<std::size_t>(block.receive), r, block.channel}];
            if (!claim(r, b, action, "receives from", block.receive, ends.receive_block)) return false;
            ends.received.push_back(a);
          }
        }
      }
    }
    for (const auto& [key, ends] : links) {
      if (!pair(std::get<0>(key), std::get<1>(key), std::get<2>(key), ends)) return false;
    }
    return true;
  }

  /// A link has one thread block at either end: otherwise it is not said in which order its messages are.
  bool claim(std::size_t rank, std::uint32_t block, const FlowAction& action, const char* what, int peer,
             std::uint32_t& owner) {
    if (owner == nothing) owner = block;
    if (owner == block) return true;
    return refuse(rank, block, action,
                  fmt::format("{} rank {} on channel {}, as thread block {} does already", what, peer,
                              file_.gpus[rank].blocks[block].channel, owner));
  }

  bool pair(std::size_t from, std::size_t to, std::uint32_t channel, const Ends& ends) {
    for (std::size_t m = 0; m < std::max(ends.sent.size(), ends.received.size()); ++m) {
      if (m >= ends.received.size()) {
        return refuse(from, ends.send_block, flow_.actions[from][ends.send_block][ends.sent[m]],
                      fmt::format("sends a message more to rank {} on channel {} than the {} that are taken there", to,
                                  channel, ends.received.size()));
      }
      if (m >= ends.sent.size()) {
        return refuse(to, ends.receive_block, flow_.actions[to][ends.receive_block][ends.received[m]],
                      fmt::format("takes a message more from rank {} on channel {} than the {} that are sent there", from,
                                  channel, ends.sent.size()));
      }
      FlowAction& sent = flow_.actions[from][ends.send_block][ends.sent[m]];
      FlowAction& received = flow_.actions[to][ends.receive_block][ends.received[m]];
      if (sent.count != received.count) {
        return refuse(
            to, ends.receive_block, received,
            fmt::format("takes {} chunks from rank {} on channel {}, where {} sends {}", received.count, from, channel,
                        where(static_cast<std::int64_t>(from), ends.send_block, sent.first_step), sent.count));
      }
      sent.sent = received.received = static_cast<std::uint32_t>(flow_.transfers.size());
      flow_.transfers.push_back({static_cast<std::uint32_t>(from), ends.send_block, ends.sent[m],
                                 static_cast<std::uint32_t>(to), ends.receive_block, ends.received[m], channel});
    }
    return true;
  }

  bool check_order() {
    for (std::size_t r = 0; r < ranks(); ++r) {
      const Fault fault = find_race(file_.gpus[r], flow_.locations[r]);
      if (fault.any()) return refuse(r, fault.lane, fault.step, fault.what);
    }
    return true;
  }

  /// Where a rank's thread blocks stand.
  using Positions = std::vector<std::uint32_t>;

  bool execute() {
    std::uint32_t blocks = 1;
    for (std::size_t r = 0; r < ranks(); ++r)
      blocks = std::max(blocks, blocks_of(problem_of(r), Buffer::input, static_cast<int>(r)));
    expressions_.emplace(static_cast<std::uint32_t>(ranks()), blocks);
    fill_inputs();
    messages_.resize(flow_.transfers.size());
    for (std::uint32_t r = 0; r < ranks(); ++r) {
      next_.emplace_back(flow_.actions[r].size());
      for (std::uint32_t b = 0; b < next_[r].size(); ++b) rounds_.wake({r, b});
    }
    while (const auto lane = rounds_.next()) {
      if (!go_on(*lane)) return false;
    }
    return check_end(next_);
  }

  /// Runs a lane as far as it goes, and wakes whoever waited for that.
  bool go_on(LaneName lane) {
    const auto [r, b] = lane;
    std::uint32_t& at = next_[r][b];
    for (; at < flow_.actions[r][b].size() && ready(next_[r], flow_.actions[r][b][at]); ++at) {
      if (!execute(r, b, at)) return false;
      if (const auto woken = sleepers_.extract({lane, at}); !woken.empty()) {
        for (const LaneName& other : woken.mapped()) rounds_.wake(other);
      }
      if (const std::uint32_t sent = flow_.actions[r][b][at].sent; sent != nothing) {
        rounds_.wake({flow_.transfers[sent].to, flow_.transfers[sent].to_block});
      }
    }
    if (at == flow_.actions[r][b].size()) return true;
    const Positions& own = next_[r];
    const std::vector<Wait>& waits = flow_.actions[r][b][at].waits;
    const auto unmet = std::find_if(waits.begin(), waits.end(), [&](const Wait& on) { return own[on.block] <= on.action; });
    if (unmet != waits.end()) sleepers_[{{r, unmet->block}, unmet->action}].push_back(lane);
    return true;
  }

  void fill_inputs() {
    contents_.resize(ranks());
    flow_.written.resize(ranks());
    for (std::uint32_t r = 0; r < ranks(); ++r) {
      const Locations& locations = flow_.locations[r];
      contents_[r].resize(locations.size());
      flow_.written[r].resize(locations.outputs());
      for (std::uint32_t i = 0; i < locations.inputs(); ++i) {
        const std::uint32_t at = locations.number(Buffer::input, i);
        contents_[r][at] = {expressions_->leaf(r, i / flow_.of_block), r, {at, i % flow_.of_block, true}, {}};
      }
    }
  }

  bool ready(const Positions& next, const FlowAction& action) const {
    const bool waited =
        std::all_of(action.waits.begin(), action.waits.end(), [&](const Wait& on) { return next[on.block] > on.action; });
    return waited && (action.received == nothing || !messages_[action.received].empty());
  }

  /// Nobody can move: all is done, or somebody waits for ever.
  bool check_end(const std::vector<Positions>& next) {
    for (std::size_t r = 0; r < ranks(); ++r) {
      for (std::uint32_t b = 0; b < next[r].size(); ++b) {
        if (next[r][b] == flow_.actions[r][b].size()) continue;
        const FlowAction& action = flow_.actions[r][b][next[r][b]];
        for (const Wait& on : action.waits) {
          if (next[r][on.block] > on.action) continue;
          return refuse(r, b, action,
                        fmt::format("waits for ever for step {} of thread block {}",
                                    flow_.actions[r][on.block][on.action].last_step, on.block));
        }
        const FlowTransfer& transfer = flow_.transfers[action.received];
        const std::uint32_t stands = next[transfer.from][transfer.from_block];
        return refuse(r, b, action,
                      fmt::format("waits for ever for the message of {}, which stands at step {}",
                                  where(transfer.from, transfer.from_block,
                                        flow_.actions[transfer.from][transfer.from_block][transfer.from_action].first_step),
                                  flow_.actions[transfer.from][transfer.from_block][stands].first_step));
      }
    }
    return true;
  }

  bool execute(std::size_t rank, std::uint32_t block, std::uint32_t index) {
    FlowAction& action = flow_.actions[rank][block][index];
    action.time = time_++;
    action.cells.resize(action.count);
    std::vector<Piece> results(action.count);
    for (std::uint32_t c = 0; c < action.count; ++c) {
      if (!compute(rank, block, action, c, results[c])) return false;
    }
    if (!check_overlap(rank, block, action)) return false;
    if (writes_destination(action.type)) {
      for (std::uint32_t c = 0; c < action.count; ++c) write(rank, {block, index}, c, results[c]);
    }
    if (action.sent != nothing) messages_[action.sent] = std::move(results);
    if (action.received != nothing) messages_[action.received] = {};
    return true;
  }

  /// A step that reads what it overwrites elsewhere has no meaning: nobody says in which order it goes.
  bool check_overlap(std::size_t rank, std::uint32_t block, const FlowAction& action) {
    if (!writes_destination(action.type) || action.count == 1) return true;
    const Locations& locations = flow_.locations[rank];
    std::map<std::uint32_t, std::uint32_t> written;  // cell by location
    for (std::uint32_t c = 0; c < action.count; ++c) {
      written[locations.number(action.destination.buffer, action.destination.chunk + c)] = c;
    }
    for (std::uint32_t c = 0; c < action.count; ++c) {
      for (const Version& source : action.cells[c].sources) {
        const auto found = written.find(source.location);
        if (found == written.end() || found->second == c) continue;
        return refuse(
            rank, block, action,
            fmt::format("overwrites {}, which it also reads for another chunk", text_of(locations.place(source.location))));
      }
    }
    return true;
  }

  bool compute(std::size_t rank, std::uint32_t block, FlowAction& action, std::uint32_t c, Piece& result) {
    FlowCell& cell = action.cells[c];
    std::vector<Piece> operands;
    if (action.received != nothing) operands.push_back(messages_[action.received][c]);
    for (const Place& base : action.sources) {
      const Place place{base.buffer, base.chunk + c};
      const Content& content = contents_[rank][flow_.locations[rank].number(place.buffer, place.chunk)];
      if (content.value == unwritten) {
        return refuse(rank, block, action, fmt::format("reads {}, which nobody wrote", text_of(place)));
      }
      operands.push_back({content.value, content.lowest, content.version.chunk});
      cell.sources.push_back(content.version);
    }
    cell.chunk = operands[0].chunk;
    cell.order.resize(operands.size());
    std::iota(cell.order.begin(), cell.order.end(), std::uint16_t{0});
    if (folds(action.type)) {
      if (!fold(rank, block, action, operands, cell, result)) return false;
    } else {
      result = operands[0];
    }
    result.chunk = cell.chunk;
    return true;
  }

  /// Folds in the order of the lowest ranks in the operands: whoever folds the same gets the same bits, whatever lay where.
  bool fold(std::size_t rank, std::uint32_t block, const FlowAction& action, const std::vector<Piece>& operands,
            FlowCell& cell, Piece& result) {
    if (!reduces(file_.collective)) {
      return refuse(rank, block, action, fmt::format("folds, and {} does not", tutti::name_of(file_.collective)));
    }
    for (const Piece& operand : operands) {
      if (operand.chunk != cell.chunk || expressions_->block(operand.value) != expressions_->block(operands[0].value)) {
        return refuse(rank, block, action, fmt::format("folds {} with {}", words_of(operands[0]), words_of(operand)));
      }
      if (expressions_->complete(operand.value)) {
        return refuse(rank, block, action,
                      fmt::format("folds {}, which has every rank's share already", words_of(operand)));
      }
    }
    std::sort(cell.order.begin(), cell.order.end(), [&](std::uint16_t a, std::uint16_t b) {
      return std::pair(operands[a].lowest, a) < std::pair(operands[b].lowest, b);
    });
    result.lowest = operands[cell.order[0]].lowest;
    std::vector<Value> values;
    std::uint64_t shares = 0;
    for (const std::uint16_t o : cell.order) {
      values.push_back(operands[o].value);
      shares += expressions_->shares(operands[o].value);
    }
    cell.complete = shares == ranks();
    result.value = expressions_->fold(values, cell.complete);
    if (shares < ranks()) return true;
    const std::string fault = expressions_->shares_fault(result.value);
    if (fault.empty()) return true;
    return refuse(rank, block, action, fmt::format("ends a fold of chunk {} that {}", cell.chunk, fault));
  }

  std::string words_of(const Piece& piece) const {
    return fmt::format("chunk {} of {}", piece.chunk, expressions_->text(piece.value));
  }

  void write(std::size_t rank, Wait at, std::uint32_t c, const Piece& piece) {
    FlowAction& action = action_at(rank, at);
    const Locations& locations = flow_.locations[rank];
    const std::uint32_t location = locations.number(action.destination.buffer, action.destination.chunk + c);
    action.cells[c].destination = {location, piece.chunk, false};
    contents_[rank][location] = {piece.value, piece.lowest, {location, piece.chunk, false}, {at.block, at.action}};
    const Place place = locations.place(location);
    if (locations.is_output(place) && place.chunk % flow_.of_block == piece.chunk) flow_.written[rank][place.chunk] = true;
  }

  /// What output chunk `chunk` of a rank has to be; for a fold only its block counts.
  Value promised(std::uint32_t rank, std::uint32_t chunk) const {
    const Problem& problem = flow_.problem;
    const BlockOrigin from =
        info_of(file_.collective)
            .origin(static_cast<int>(rank), static_cast<int>(ranks()), problem.root, chunk / flow_.of_block);
    return expressions_->leaf(static_cast<std::uint32_t>(from.rank), from.block);
  }

  bool keeps(const Content& content, Value wanted, std::uint32_t chunk) const {
    if (content.value == unwritten || content.version.chunk != chunk % flow_.of_block) return false;
    if (!reduces(file_.collective)) return content.value == wanted;
    return expressions_->complete(content.value) && expressions_->block(content.value) == expressions_->block(wanted);
  }

  bool check_promises() {
    for (std::uint32_t r = 0; r < ranks(); ++r) {
      for (std::uint32_t chunk = 0; chunk < flow_.locations[r].outputs(); ++chunk) {
        const Value wanted = promised(r, chunk);
        if (!keeps(output(r, chunk), wanted, chunk) && !refuse_output(r, chunk, output(r, chunk), wanted)) return false;
      }
    }
    return true;
  }

  /// Names the step that left the wrong thing there. Where none did, the one that left the right thing elsewhere; where
  /// there is none of these, either, the rank's last.
  bool refuse_output(std::uint32_t rank, std::uint32_t chunk, const Content& content, Value wanted) {
    const std::string promise =
        reduces(file_.collective) ? std::string("the fold of all ranks") : expressions_->text(wanted);
    if (content.writer.block != nothing) {
      return refuse(
          rank, content.writer.block, action_at(rank, {content.writer.block, content.writer.action}),
          fmt::format("leaves chunk {} of {} in output chunk {} for good, where chunk {} of {} belongs",
                      content.version.chunk, expressions_->text(content.value), chunk, chunk % flow_.of_block, promise));
    }
    for (const Content& other : contents_[rank]) {
      if (other.writer.block == nothing || !keeps(other, wanted, chunk)) continue;
      return refuse(rank, other.writer.block, action_at(rank, {other.writer.block, other.writer.action}),
                    fmt::format("is the last to write chunk {} of {}, and nobody writes it to output chunk {}",
                                chunk % flow_.of_block, promise, chunk));
    }
    std::pair<std::uint64_t, Wait> last{0, {nothing, 0}};
    for (std::uint32_t b = 0; b < flow_.actions[rank].size(); ++b) {
      const std::vector<FlowAction>& actions = flow_.actions[rank][b];
      if (actions.empty() || (last.second.block != nothing && actions.back().time < last.first)) continue;
      last = {actions.back().time, {b, static_cast<std::uint32_t>(actions.size()) - 1}};
    }
    const std::string what =
        fmt::format("nobody writes chunk {} of {} to output chunk {}", chunk % flow_.of_block, promise, chunk);
    if (last.second.block == nothing) return refuse(rank, -1, -1, "does nothing: " + what);
    return refuse(rank, last.second.block, action_at(rank, last.second), "is its rank's last: " + what);
  }

  const File& file_;
  Flow flow_;
  std::optional<Expressions> expressions_;
  std::vector<std::vector<Content>> contents_;  ///< by rank and location
  std::vector<std::vector<Piece>> messages_;    ///< under way, by transfer
  std::vector<Positions> next_;                 ///< by rank
  Rounds rounds_;
  std::map<std::pair<LaneName, std::uint32_t>, std::vector<LaneName>> sleepers_;  ///< by the action that they wait for
  std::uint64_t time_ = 0;
  std::uint64_t nops_ = 0;  ///< looked at
  std::string error_;
};

}  // namespace

Locations::Locations(const Problem& problem, int rank, const Gpu& gpu, std::uint32_t of_block, bool aliased)
    : of_block_(of_block),
      inputs_(blocks_of(problem, Buffer::input, rank) * of_block),
      outputs_(blocks_of(problem, Buffer::output, rank) * of_block),
      output_(std::max(inputs_, gpu.chunks[0])),
      scratch_(output_ + std::max(outputs_, gpu.chunks[1])),
      end_(scratch_ + gpu.chunks[2]) {
  if (!aliased) return;
  alias_ = in_place_alias(problem, rank);
  // In place a broadcast or reduce has one buffer on every rank, whether or not it is both input and output there.
  if (problem.collective == Collective::broadcast) alias_ = {true, false, 0, 0};
  swapped_ = problem.collective == Collective::reduce && rank != problem.root;
}

std::uint32_t Locations::number(Buffer buffer, std::uint32_t chunk) const {
  if (buffer == Buffer::scratch) return scratch_ + chunk;
  if (buffer == Buffer::output) return swapped_ && chunk < inputs_ ? chunk : output_ + chunk;
  const std::uint32_t block = chunk / of_block_;
  if (!alias_.any || (!alias_.all && block != alias_.input_block)) return chunk;
  const std::uint32_t to = alias_.all ? block : alias_.output_block;
  return output_ + to * of_block_ + chunk % of_block_;
}

bool Locations::copies_onto_itself(const Step& step) const {
  if (step.type != StepType::cpy) return false;
  bool same = true;
  for (std::uint32_t c = 0; same && c < step.count; ++c) {
    same = number(step.source.buffer, step.source.chunk + c) == number(step.destination.buffer, step.destination.chunk + c);
  }
  return same;
}

std::uint32_t Locations::initial_chunk(std::uint32_t location) const {
  if (location < output_) return location;
  const std::uint32_t chunk = location - output_;
  return alias_.all ? chunk : alias_.input_block * of_block_ + chunk % of_block_;
}

Place Locations::place(std::uint32_t location) const {
  if (location >= scratch_) return {Buffer::scratch, location - scratch_};
  if (location >= output_) return {Buffer::output, location - output_};
  return {Buffer::input, location};
}

Result<Flow> follow(const File& file, int root) { return Follower(file, root).run(); }

Result<std::vector<int>> find_roots(const File& file) { return Follower(file, -1).roots(); }

}  // namespace tutti::msccl
