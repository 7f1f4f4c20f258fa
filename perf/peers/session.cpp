#include "perf/peers/session.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "perf/measure.h"
#include "perf/names.h"

namespace tutti::perf {
namespace {

constexpr uint64_t kLine = 64;

program::JsonObject good() {
  program::JsonObject reply;
  reply.add("ok", true);
  return reply;
}

// How often the system took the core away from this process.
int64_t preemptions() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_nivcsw;
}

program::JsonObject said(const char* what, const std::string& sentence) {
  program::JsonObject reply;
  reply.add(what, sentence);
  return reply;
}

}  // namespace

std::string Command::text(const std::string& name, const std::string& otherwise) const {
  const auto found = words.find(name);
  return found != words.end() ? found->second : otherwise;
}

uint64_t Command::number(const std::string& name, uint64_t otherwise) const {
  const auto found = words.find(name);
  return found != words.end() ? std::strtoull(found->second.c_str(), nullptr, 10) : otherwise;
}

Command parse_command(const std::string& line) {
  Command command;
  std::istringstream words(line);
  words >> command.verb;
  for (std::string word; words >> word;) {
    const size_t equals = word.find('=');
    if (equals != std::string::npos) command.words[word.substr(0, equals)] = word.substr(equals + 1);
  }
  return command;
}

std::string Session::open() {
  const bool oversubscribed = !place_.cpus.empty() && static_cast<size_t>(place_.ranks) > place_.cpus.size();
  return barrier_.open(place_.folder + "/meeting", place_.ranks, oversubscribed);
}

program::JsonObject Session::obey(const Command& command) {
  if (command.verb == "start") return start();
  if (command.verb == "case") return take(command);
  if (command.verb == "drop") {
    drop();
    return good();
  }
  if (send_ == nullptr) return said("error", "the command " + command.verb + " needs a case first");
  if (command.verb == "check") return check(command);
  if (command.verb == "time") return time(command);
  if (command.verb == "late") return arrive_late(command);
  return said("error", "there is no command " + command.verb);
}

program::JsonObject Session::start() {
  if (!barrier_.arrive_and_wait(Barrier::Wait::kKeen)) return said("error", "the other ranks did not come to begin");
  const uint64_t begin = now_ns();
  const std::string why = contender_.start(place_);
  const uint64_t end = now_ns();
  if (!why.empty()) return said("error", why);
  program::JsonObject reply = good();
  reply.add("ns", static_cast<double>(end - begin)).add("version", contender_.version());
  return reply;
}

// The words: collective, type, op, root, count, division, in_place, slots, offset; fill=0 where a check follows, which does
// that.
program::JsonObject Session::take(const Command& command) {
  drop();
  const BenchedCollective* collective = contender_.find(command.text("collective"));
  if (collective == nullptr) return said("lacks", "it has no " + command.text("collective"));
  const std::vector<tutti_type> types = types_named(command.text("type"));
  const std::vector<tutti_op> ops = ops_named(command.text("op", "sum"));
  const std::vector<BlockDivision> divided = divisions_named(command.text("division", "even"));
  if (types.size() != 1 || ops.size() != 1 || divided.size() != 1)
    return said("error", "a case needs one type, one operator and one division");
  const int root = static_cast<int>(command.number("root"));
  const Pattern pattern = {types[0], ops[0], collective->reduces(), place_.ranks, 0};
  operation_ = {collective, pattern, root, place_.rank, command.number("count"), command.number("in_place") != 0,
                divided[0]};
  const std::string lacks = contender_.lacks(operation_);
  if (!lacks.empty()) return said("lacks", lacks);
  const uint64_t larger = std::max(operation_.send_bytes(), operation_.recv_bytes());
  stride_ = std::max(kLine, (larger + kLine - 1) / kLine * kLine);
  slots_ = std::max<uint64_t>(1, command.number("slots", 1));
  offset_ = command.number("offset");
  bytes_ = offset_ + stride_ * slots_;
  send_ = contender_.allocate(bytes_);
  recv_ = contender_.allocate(bytes_);
  if (send_ == nullptr || recv_ == nullptr)
    return said("error", "two buffers of " + std::to_string(bytes_) + " bytes were refused");
  list_blocks();
  if (command.number("fill", 1) != 0) fill(slots_);
  const std::string why = contender_.prepare(operation_, places(0), slots_, stride_);
  if (!why.empty()) return said("error", why);
  const auto behind_page = [](const std::byte* buffer) {
    return std::to_string(reinterpret_cast<std::uintptr_t>(buffer) % 4096);
  };
  const Places first = places(0);
  program::JsonObject reply = good();
  reply.add_json("behind_page", "[" + behind_page(first.send) + "," + behind_page(first.recv) + "]");
  return reply;
}

void Session::drop() {
  if (send_ != nullptr && recv_ != nullptr) contender_.finish();
  if (send_ != nullptr) contender_.release(send_, bytes_);
  if (recv_ != nullptr) contender_.release(recv_, bytes_);
  send_ = recv_ = nullptr;
}

Places Session::places(uint64_t slot) const {
  Places places = lay_out(operation_, send_ + offset_ + slot * stride_, recv_ + offset_ + slot * stride_);
  if (slot < lists_.size()) places.lists = &lists_[slot];
  return places;
}

void Session::list_blocks() {
  lists_.clear();
  while (operation_.collective->takes_lists && lists_.size() < slots_) {
    const Places one = places(lists_.size());
    lists_.push_back(block_lists(operation_, one.send, one.recv));
  }
}

void Session::fill(uint64_t slots) {
  for (uint64_t slot = 0; slot < slots; ++slot) fill_send(operation_, places(slot));
}

// In place the input is gone and has to be made again; else storing what is there does to caches what new values would.
void Session::rewrite(uint64_t slots) {
  if (operation_.in_place) return fill(slots);
  if (!operation_.collective->sends(place_.rank, operation_.root)) return;
  for (uint64_t slot = 0; slot < slots; ++slot) {
    std::byte* input = places(slot).send;
    const uint64_t words = operation_.send_bytes() / sizeof(uint64_t);
    using Word [[gnu::aligned(1)]] = volatile uint64_t;  // inputs may begin anywhere
    auto* word = reinterpret_cast<Word*>(input);
    for (uint64_t i = 0; i < words; ++i) word[i] = word[i];
    auto* rest = reinterpret_cast<volatile std::byte*>(input + words * sizeof(uint64_t));
    for (uint64_t i = 0; i < operation_.send_bytes() % sizeof(uint64_t); ++i) rest[i] = rest[i];
  }
}

program::JsonObject Session::failed() {
  program::JsonObject reply = said("error", failure_);
  reply.add("exit", contender_.exit_code());
  return reply;
}

bool Session::operate_once() {
  if (contender_.run(operation_, places(0))) return true;
  failure_ = contender_.complaint();
  return false;
}

bool Session::operate(uint64_t operations) {
  const Places first = places(0);
  const auto same = [&](uint64_t) { return first; };
  const auto in_turn = [&](uint64_t i) { return places(i % slots_); };
  const bool good = slots_ == 1 ? contender_.run_batch(operation_, same, operations)
                                : contender_.run_batch(operation_, in_turn, operations);
  if (!good) failure_ = contender_.complaint();
  return good;
}

// Every element of the result, the input and the ignored buffers.
program::JsonObject Session::check(const Command& command) {
  operation_.pattern.seed = static_cast<uint32_t>(command.number("seed"));
  const Places first = places(0);
  poison_result(operation_, first);
  fill_send(operation_, first);
  if (!barrier_.arrive_and_wait(Barrier::Wait::kQuiet)) return said("error", "the other ranks did not come to the check");
  if (!operate_once()) return failed();
  const CheckFinding finding = check_result(operation_, first);
  program::JsonObject reply = good();
  reply.add("wrong", finding.wrong).add("sentence", finding.sentence).add("choice", contender_.choice());
  return reply;
}

double Session::time_batch(uint64_t batch) {
  if (!barrier_.arrive_and_wait(Barrier::Wait::kKeen)) {
    failure_ = "the other ranks did not come to begin";
    return -1;
  }
  const int64_t before = preemptions();
  const uint64_t begin = now_ns();
  if (!operate(batch)) return -1;
  const uint64_t end = now_ns();
  preempted_ += preemptions() - before;
  if (!barrier_.arrive_and_wait(Barrier::Wait::kQuiet)) {
    failure_ = "the other ranks did not come to the end";
    return -1;
  }
  return static_cast<double>(end - begin);
}

// The words: warm (operations before, not timed), batch, groups (of batches), fresh (inputs are rewritten before each).
program::JsonObject Session::time(const Command& command) {
  const uint64_t groups = std::max<uint64_t>(1, command.number("groups", 1));
  const uint64_t batch = std::max<uint64_t>(1, command.number("batch", 1));
  const bool fresh = command.number("fresh") != 0;
  if (!operate(command.number("warm"))) return failed();
  preempted_ = 0;
  std::string times;
  for (uint64_t group = 0; group < groups; ++group) {
    if (fresh) rewrite(std::min(batch, slots_));
    const double ns = time_batch(batch);
    if (ns < 0) return failed();
    times += (times.empty() ? "[" : ",") + std::to_string(static_cast<uint64_t>(ns));
  }
  program::JsonObject reply = good();
  reply.add_json("ns", times + "]").add("preempted", preempted_);
  return reply;
}

// Rank 0 waits in an operation for the others, who come `milliseconds` later; the conductor looks at rank 0's CPU time.
program::JsonObject Session::arrive_late(const Command& command) {
  if (!barrier_.arrive_and_wait(Barrier::Wait::kKeen)) return said("error", "the other ranks did not come to begin");
  if (place_.rank != 0) usleep(static_cast<useconds_t>(command.number("milliseconds") * 1000));
  return operate_once() ? good() : failed();
}

}  // namespace tutti::perf
