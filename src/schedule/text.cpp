#include "src/schedule/text.h"

#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <tuple>

#include "src/base/printable.h"
#include "src/schedule/structure.h"
#include "src/tables/names.h"
#include "src/tables/operators.h"

namespace tutti {
namespace {

/// What plans say in an operator's place where calls bring one of their own.
constexpr std::string_view user_operator_word = "user_defined";
constexpr std::string_view places[] = {"input", "output", "scratch"};

Buffer usual_sizing(Place place) { return place == Place::link ? Buffer::input : static_cast<Buffer>(place); }

std::string text_of(const Program& program, const Operand& operand) {
  std::string out;
  if (operand.place == Place::link) {
    const Link& link = program.links[operand.link];
    out = (link.sends ? "to:" : "from:") + std::to_string(link.peer) + "." + std::to_string(link.channel);
  } else {
    out = places[static_cast<std::size_t>(operand.place)];
  }
  out += print_range(operand.range);
  if (operand.sizing != usual_sizing(operand.place))
    out += "@" + std::string(places[static_cast<std::size_t>(operand.sizing)]);
  return out;
}

/// Reads one word from its beginning.
class Word {
 public:
  explicit Word(std::string_view text) : text_(text) {}
  bool skip(std::string_view prefix) {
    if (!text_.starts_with(prefix)) return false;
    text_.remove_prefix(prefix.size());
    return true;
  }
  template <typename Number>
  bool number(Number& out, int base = 10) {
    const auto [at, error] = std::from_chars(text_.data(), text_.data() + text_.size(), out, base);
    if (error != std::errc()) return false;
    text_.remove_prefix(static_cast<std::size_t>(at - text_.data()));
    return true;
  }
  bool empty() const { return text_.empty(); }

 private:
  std::string_view text_;
};

bool read_range(Word& word, Range& range) {
  if (!word.skip("[") || !word.number(range.block)) return false;
  if (word.skip("+") && !word.number(range.blocks)) return false;
  if (word.skip("/") && (!word.number(range.run) || !word.skip(":") || !word.number(range.stride))) return false;
  if (!word.skip(";") || !word.number(range.chunk)) return false;
  if (word.skip("+") && !word.number(range.chunks)) return false;
  return word.skip("]");
}

bool read_buffer(Word& word, Buffer& buffer) {
  for (std::size_t b = 0; b < std::size(places); ++b) {
    if (!word.skip(places[b])) continue;
    buffer = static_cast<Buffer>(b);
    return true;
  }
  return false;
}

/// Reads a schedule line by line; the members say how far it is.
class Parser {
 public:
  Result<Schedule> run(std::string_view text) {
    while (!text.empty() && ok()) {
      const std::size_t end = text.find('\n');
      const std::string_view line = text.substr(0, end);
      text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
      ++line_;
      words_ = split(line.substr(0, line.find('#')));
      if (!words_.empty()) read_line();
    }
    if (ok()) check_end();
    if (!ok()) return Status(TUTTI_INVALID_ARGUMENT, "schedule text, line " + std::to_string(line_) + ": " + error_);
    return std::move(schedule_);
  }

 private:
  bool ok() const { return error_.empty(); }
  bool refuse(std::string reason) {
    if (ok()) error_ = std::move(reason);
    return false;
  }
  static std::string quoted(std::string_view word) {
    std::string out = "'";
    for (const char c : word.substr(0, 40)) out += c >= ' ' && c <= '~' ? c : '?';
    return out + "'";
  }

  static std::vector<std::string_view> split(std::string_view line) {
    std::vector<std::string_view> words;
    constexpr std::string_view blank = " \t\r";
    while (true) {
      const std::size_t begin = line.find_first_not_of(blank);
      if (begin == std::string_view::npos) return words;
      line.remove_prefix(begin);
      words.push_back(line.substr(0, line.find_first_of(blank)));
      line.remove_prefix(words.back().size());
    }
  }

  void read_line() {
    const std::string_view first = words_[0];
    if (line_of_header_ == 0) {
      if (first != "schedule") return void(refuse("a schedule begins with the word 'schedule'"));
      return read_name();
    }
    if (first == "rank") return read_rank();
    if (schedule_.programs.empty()) return read_settings();
    if (first == "links") return read_links();
    if (first == "lane") return read_lane();
    read_step();
  }

  void read_name() {
    line_of_header_ = line_;
    if (words_.size() != 3) return void(refuse("expected 'schedule COLLECTIVE ALGORITHM'"));
    const auto v_variant = collective_of_v_variant(words_[1]);
    const auto collective = v_variant ? v_variant : collective_of(words_[1]);
    if (!collective) return void(refuse("there is no collective " + quoted(words_[1])));
    schedule_.plan.problem.collective = *collective;
    schedule_.plan.problem.irregular = v_variant.has_value();
    schedule_.plan.algorithm = printable(words_[2]);  // it is printed
  }

  /// Pairs of a name and a value.
  void read_settings() {
    for (std::size_t w = 0; w < words_.size() && ok(); w += 2) {
      if (w + 1 == words_.size()) return void(refuse(quoted(words_[w]) + " has no value"));
      read_setting(words_[w], words_[w + 1]);
    }
  }

  void read_setting(std::string_view name, std::string_view value) {
    Plan& plan = schedule_.plan;
    if (!settings_.emplace(name, line_).second) return void(refuse(quoted(name) + " is there twice"));
    if (name == "type") {
      const auto type = type_of(value);
      if (!type) return void(refuse("there is no type " + quoted(value)));
      plan.problem.type = *type;
    } else if (name == "op") {
      const auto op = value == user_operator_word ? std::optional(user_operator) : op_of(value);
      if (!op) return void(refuse("there is no operator " + quoted(value)));
      plan.problem.op = *op;
    } else if (name == "processor") {
      if (value != "cpu" && value != "cuda") return void(refuse("the processor is 'cpu' or 'cuda', not " + quoted(value)));
      plan.problem.processor = value == "cuda" ? Processor::cuda : Processor::cpu;
    } else if (name == "protocol") {
      if (value != "messages" && value != "lines")
        return void(refuse("the protocol is 'messages' or 'lines', not " + quoted(value)));
      plan.protocol = value == "lines" ? Protocol::lines : Protocol::messages;
    } else if (name == "folds") {
      if (value != "once" && value != "freely") return void(refuse("it folds 'once' or 'freely', not " + quoted(value)));
      plan.problem.one_fold = value == "once";
    } else if (!read_number_setting(name, value)) {
      refuse("there is no setting " + quoted(name) + " of this value: " + quoted(value));
    }
  }

  bool read_number_setting(std::string_view name, std::string_view value) {
    Plan& plan = schedule_.plan;
    const std::pair<std::string_view, std::uint32_t*> small[] = {{"lanes", &plan.shape.lanes},
                                                                 {"depth", &plan.shape.depth},
                                                                 {"credit", &plan.shape.credit},
                                                                 {"chunks", &plan.shape.chunks},
                                                                 {"scratch", &plan.shape.scratch_blocks},
                                                                 {"message", &plan.shape.message_cells},
                                                                 {"grain", &plan.grain},
                                                                 {"operands", &plan.problem.local_operands},
                                                                 {"opaque", &plan.problem.opaque},
                                                                 {"strands", &plan.strands},
                                                                 {"lanes_wanted", &plan.parameters.lanes},
                                                                 {"depth_wanted", &plan.parameters.depth}};
    const std::pair<std::string_view, std::uint64_t*> large[] = {
        {"count", &plan.problem.count}, {"window", &plan.window}, {"message_bytes", &plan.message_bytes}};
    Word word(value);
    if (name == "ranks") return word.number(plan.problem.ranks) && word.empty();
    if (name == "root") return word.number(plan.problem.root) && word.empty();
    if (name == "hash") return word.number(plan.hash, 16) && word.empty();
    for (const auto& [known, field] : small) {
      if (name == known) return word.number(*field) && word.empty();
    }
    for (const auto& [known, field] : large) {
      if (name == known) return word.number(*field) && word.empty();
    }
    return false;
  }

  void read_rank() {
    if (schedule_.programs.empty()) {
      for (const char* needed : {"ranks", "count", "type", "op", "lanes", "depth", "credit", "chunks", "window"}) {
        if (settings_.count(std::string_view(needed)) == 0)
          return void(refuse("'" + std::string(needed) + "' is missing above"));
      }
    }
    const std::uint64_t next = schedule_.programs.size();
    if (words_.size() != 2 || words_[1] != std::to_string(next))
      return void(refuse("expected 'rank " + std::to_string(next) + "'"));
    if (next >= std::uint64_t{most_ranks})
      return void(refuse("there are more than " + std::to_string(most_ranks) + " ranks"));
    schedule_.programs.emplace_back();
    links_.clear();
  }

  Program& program() { return schedule_.programs.back(); }

  void read_links() {
    if (!program().links.empty() || !program().lanes.empty())
      return void(refuse("links stand once, at a rank's beginning"));
    for (std::size_t w = 1; w < words_.size(); ++w) {
      Word word(words_[w]);
      Link link;
      if (!read_link(word, link) || !word.empty())
        return void(refuse(quoted(words_[w]) + " is no link, as in to:3.0 or from:3.0"));
      const auto number = static_cast<std::uint32_t>(program().links.size());
      if (!links_.emplace(std::tuple(link.peer, link.channel, link.sends), number).second) {
        return void(refuse("link " + quoted(words_[w]) + " is there twice"));
      }
      program().links.push_back(link);
    }
  }

  static bool read_link(Word& word, Link& link) {
    link.sends = word.skip("to:");
    if (!link.sends && !word.skip("from:")) return false;
    return word.number(link.peer) && word.skip(".") && word.number(link.channel);
  }

  void read_lane() {
    const std::string next = std::to_string(program().lanes.size());
    if (words_.size() != 2 || words_[1] != next) return void(refuse("expected 'lane " + next + "'"));
    program().lanes.push_back({static_cast<std::uint32_t>(program().steps.size()), 0});
  }

  /// NUMBER SPELLING sources -> destinations [complete] [after LANE.STEP[-DISTANCE] …]
  void read_step() {
    if (program().lanes.empty()) return void(refuse("expected 'lane 0', not " + quoted(words_[0])));
    Lane& lane = program().lanes.back();
    if (words_[0] != std::to_string(lane.count))
      return void(refuse("expected step " + std::to_string(lane.count) + " or a lane or rank"));
    Step step;
    step.operands = static_cast<std::uint32_t>(program().operands.size());
    step.dependencies = static_cast<std::uint32_t>(program().dependencies.size());
    std::size_t w = 2;
    if (!read_operands(w, "->", step.sources)) return;
    if (w >= words_.size()) return void(refuse("a step is 'NUMBER MOVE sources -> destinations'"));
    ++w;
    if (!read_operands(w, "complete", step.destinations)) return;
    if (step.sources > 1) step.flags = folds;
    if (w < words_.size() && words_[w] == "complete") {
      step.flags = static_cast<std::uint16_t>(step.flags | last_touch);
      ++w;
    }
    if (!read_dependencies(w, step.dependency_count)) return;
    if (step.sources == 0 || step.destinations == 0) return void(refuse("a step has sources and destinations"));
    const char* meant = word_of(program(), step);
    if (words_[1] != "move" && words_[1] != meant)
      return void(refuse(quoted(words_[1]) + " is a '" + meant + "' by its operands"));
    program().steps.push_back(step);
    ++lane.count;
  }

  /// Operands up to the word `end`, 'after', or the line's end.
  bool read_operands(std::size_t& w, std::string_view end, std::uint16_t& count) {
    for (; w < words_.size() && words_[w] != end && words_[w] != "after"; ++w) {
      Operand operand;
      if (!read_operand(words_[w], operand))
        return refuse(quoted(words_[w]) + " is no operand, as in input[0;3] or to:1.0[0;3]");
      if (count == UINT16_MAX) return refuse("the step has too many operands");
      ++count;
      program().operands.push_back(operand);
    }
    return true;
  }

  bool read_operand(std::string_view text, Operand& operand) {
    Word word(text);
    Buffer buffer = Buffer::input;
    if (read_buffer(word, buffer)) {
      operand.place = static_cast<Place>(buffer);
    } else {
      Link link;
      if (!read_link(word, link)) return false;
      const auto found = links_.find({link.peer, link.channel, link.sends});
      if (found == links_.end()) return false;
      operand.place = Place::link;
      operand.link = found->second;
    }
    operand.sizing = usual_sizing(operand.place);
    if (!read_range(word, operand.range)) return false;
    if (word.skip("@") && !read_buffer(word, operand.sizing)) return false;
    return word.empty();
  }

  bool read_dependencies(std::size_t w, std::uint16_t& count) {
    if (w == words_.size()) return true;
    if (words_[w] != "after") return refuse("expected 'after', not " + quoted(words_[w]));
    for (++w; w < words_.size(); ++w) {
      Word word(words_[w]);
      Dependency on;
      bool read = word.number(on.lane) && word.skip(".") && word.number(on.step);
      if (read && word.skip("-")) read = word.number(on.distance);
      if (!read || !word.empty()) return refuse(quoted(words_[w]) + " is no step of a lane, as in 1.4 or 1.4-2");
      if (count == UINT16_MAX) return refuse("the step waits for too many others");
      ++count;
      program().dependencies.push_back(on);
    }
    return true;
  }

  void check_end() {
    if (line_of_header_ == 0) return void(refuse("there is no schedule"));
    const int wanted = schedule_.plan.problem.ranks;
    if (wanted < 1) return void(refuse("there are " + std::to_string(wanted) + " ranks"));
    if (schedule_.programs.size() == static_cast<std::size_t>(wanted)) return;
    refuse("it ends after " + std::to_string(schedule_.programs.size()) + " of " + std::to_string(wanted) + " ranks");
  }

  Schedule schedule_;
  std::uint64_t line_ = 0;
  std::uint64_t line_of_header_ = 0;
  std::vector<std::string_view> words_;
  std::map<std::string_view, std::uint64_t> settings_;
  std::map<std::tuple<int, std::uint32_t, bool>, std::uint32_t> links_;
  std::string error_;
};

std::string hex(std::uint64_t value) {
  std::array<char, 16> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value, 16).ptr;
  return std::string(digits.data(), end);
}

}  // namespace

const char* word_of(const Program& program, const Step& step) {
  bool receives = false;
  bool sends = false;
  for (std::uint32_t o = 0; o < std::uint32_t{step.sources} + step.destinations; ++o) {
    if (program.operands[step.operands + o].place == Place::link) (o < step.sources ? receives : sends) = true;
  }
  if (step.sources > 1) return receives ? (sends ? "recv_reduce_send" : "recv_reduce") : sends ? "reduce_send" : "reduce";
  return receives ? (sends ? "relay" : "recv") : sends ? "send" : "copy";
}

std::string print_range(const Range& range) {
  std::string out = "[" + std::to_string(range.block);
  if (range.blocks != 1) out += "+" + std::to_string(range.blocks);
  if (range.run != 1 || range.stride != 1) out += "/" + std::to_string(range.run) + ":" + std::to_string(range.stride);
  out += ";" + std::to_string(range.chunk);
  if (range.chunks != 1) out += "+" + std::to_string(range.chunks);
  return out + "]";
}

std::string print_step(const Program& program, const Step& step) {
  std::string out = word_of(program, step);
  for (std::uint32_t o = 0; o < std::uint32_t{step.sources} + step.destinations; ++o) {
    if (o == step.sources) out += " ->";
    out += " " + text_of(program, program.operands[step.operands + o]);
  }
  if ((step.flags & last_touch) != 0) out += " complete";
  for (std::uint32_t d = 0; d < step.dependency_count; ++d) {
    const Dependency& on = program.dependencies[step.dependencies + d];
    out += (d == 0 ? " after " : " ") + std::to_string(on.lane) + "." + std::to_string(on.step);
    if (on.distance != 0) out += "-" + std::to_string(on.distance);
  }
  return out;
}

std::string print_program(const Program& program, int rank) {
  std::string out = "\nrank " + std::to_string(rank) + "\n";
  if (!program.links.empty()) {
    out += "links";
    for (const Link& link : program.links) {
      out += (link.sends ? " to:" : " from:") + std::to_string(link.peer) + "." + std::to_string(link.channel);
    }
    out += "\n";
  }
  for (std::size_t l = 0; l < program.lanes.size(); ++l) {
    out += "lane " + std::to_string(l) + "\n";
    for (std::uint32_t s = 0; s < program.lanes[l].count; ++s) {
      out += "  " + std::to_string(s) + " " + print_step(program, program.steps[program.lanes[l].first + s]) + "\n";
    }
  }
  return out;
}

std::string print_schedule(const Plan& plan, const std::vector<Program>& programs) {
  const Problem& problem = plan.problem;
  const Shape& shape = plan.shape;
  const auto pair = [](const char* name, std::uint64_t value) { return std::string(name) + " " + std::to_string(value); };
  std::string out = "schedule " + std::string(kind_of(problem)) + " " + plan.algorithm + "\n";
  out += "ranks " + std::to_string(problem.ranks) + " root " + std::to_string(problem.root) +
         pair(" count", problem.count) + " type " + text_of(problem.type) + " op " +
         (problem.op == user_operator ? std::string(user_operator_word) : text_of(problem.op));
  if (problem.opaque != 0) out += pair(" opaque", problem.opaque);
  if (problem.one_fold) out += " folds once";
  if (problem.local_operands != 1) out += pair(" operands", problem.local_operands);
  out += pair("\nlanes", shape.lanes) + pair(" depth", shape.depth) + pair(" credit", shape.credit) +
         pair(" chunks", shape.chunks) + pair(" scratch", shape.scratch_blocks) + pair(" message", shape.message_cells);
  if (plan.strands != 1) out += pair(" strands", plan.strands);
  if (plan.protocol == Protocol::lines) out += " protocol lines";
  if (problem.processor == Processor::cuda) out += " processor cuda";
  out += pair("\nwindow", plan.window) + pair(" grain", plan.grain) + pair(" message_bytes", plan.message_bytes) +
         " hash " + hex(plan.hash) + "\n";
  if (plan.parameters.lanes != 0 || plan.parameters.depth != 0) {
    out += pair("lanes_wanted", plan.parameters.lanes) + pair(" depth_wanted", plan.parameters.depth) + "\n";
  }
  for (std::size_t rank = 0; rank < programs.size(); ++rank) out += print_program(programs[rank], static_cast<int>(rank));
  return out;
}

Result<Schedule> parse_schedule(std::string_view text) { return Parser().run(text); }

}  // namespace tutti
