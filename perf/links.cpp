#include "perf/links.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <map>
#include <numeric>
#include <set>

#include "perf/measure.h"
#include "src/program/files.h"

namespace tutti::perf {
namespace {

constexpr int kMostRanksWhole = 8;
constexpr int kMostPairs = 32;
constexpr uint64_t kTiny = 8;
constexpr uint64_t kLarge = uint64_t{2} << 20;
constexpr uint64_t kLeastLarge = uint64_t{32} << 10;
constexpr uint64_t kPart = 4;        // the smaller of the two large sizes is the larger one's fourth part
constexpr double kLongest = 50e6;    // ns that a message of the larger size may take, else sizes are smaller
constexpr double kBatch = 1e6;       // ns of a batch
constexpr double kLinkBudget = 2e9;  // ns of all batches of a size, as far as 3 of them take no longer
constexpr double kBatches = 15;
constexpr double kUnrest = 2;  // from where on LinkMeasured::unrest is told
constexpr double kApart = 10;  // and how much pairs of one class differ, who share cores or were held up

std::size_t at(int index) { return static_cast<std::size_t>(index); }

std::string plural(std::size_t number, const char* noun) {
  return fmt::format("{} {}{}", number, noun, number == 1 ? "" : "s");
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

/// The first error, and none after it.
class Calls {
 public:
  template <typename Call>
  void operator()(Call&& call) {
    if (status_ == TUTTI_SUCCESS) status_ = call();
  }
  tutti_status status() const { return status_; }

 private:
  tutti_status status_ = TUTTI_SUCCESS;
};

/// One end of a communicator of two.
class Pair {
 public:
  Pair(tutti_comm* comm, int rank) : comm_(comm), rank_(rank), buffer_(kLarge, 1) {}

  /// Both ends call it. On rank 0, fills in alpha and beta.
  tutti_status measure(LinkMeasured& link) {
    double tiny = 0, less = 0, more = 0;
    Calls then;
    then([&] { return seconds(kTiny, tiny); });
    uint64_t large = kLarge;
    then([&] { return choose_size(large); });
    then([&] { return seconds(large / kPart, less); });
    then([&] { return seconds(large, more); });
    link.alpha = tiny;
    link.beta = (more - less) / static_cast<double>(large - large / kPart);
    // On a machine with much else to do, the larger may seem no dearer: then all of its time is the bytes'.
    link.no_slope = link.beta <= 0;
    if (link.no_slope) link.beta = more / static_cast<double>(large);
    link.unrest = unrest_;
    return then.status();
  }

 private:
  /// There and back, so many times. Fills in nanoseconds.
  tutti_status go(uint64_t bytes, uint64_t times, double& nanoseconds) {
    const uint64_t start = now_ns();
    Calls then;
    for (uint64_t i = 0; i < times; ++i) {
      for (const bool sends : {rank_ == 0, rank_ != 0}) {
        then([&] {
          return sends ? tutti_send(buffer_.data(), bytes, TUTTI_UINT8, 1 - rank_, comm_, kBlocking, nullptr)
                       : tutti_recv(buffer_.data(), bytes, TUTTI_UINT8, 1 - rank_, comm_, kBlocking, nullptr);
        });
      }
    }
    nanoseconds = static_cast<double>(now_ns() - start);
    return then.status();
  }

  /// Makes both ends go on with rank 0's number.
  tutti_status agree(uint64_t& number) {
    return tutti_broadcast(&number, &number, 1, TUTTI_UINT64, 0, comm_, kBlocking, nullptr);
  }

  /// There and back in nanoseconds, at least 1: the quickest of a few, as one or another is not held up.
  tutti_status quickest(uint64_t bytes, double& each) {
    constexpr uint64_t times = 2;
    Calls then;
    for (int trial = 0; trial < 5; ++trial) {
      double nanoseconds = 0;
      then([&] { return go(bytes, times, nanoseconds); });
      const double own = std::max(nanoseconds / times, 1.0);
      each = trial == 0 ? own : std::min(each, own);
    }
    return then.status();
  }

  /// Halves of round trips: the median over batches of many.
  tutti_status seconds(uint64_t bytes, double& out) {
    double each = 0;
    Calls then;
    then([&] { return quickest(bytes, each); });
    auto times = static_cast<uint64_t>(std::clamp(kBatch / each, 1.0, 10'000.0));
    then([&] { return agree(times); });
    auto count = static_cast<uint64_t>(std::clamp(kLinkBudget / each / static_cast<double>(times), 3.0, kBatches));
    then([&] { return agree(count); });
    std::vector<double> batches(count);
    for (double& batch : batches) then([&] { return go(bytes, times, batch); });
    const double middle = median(batches);
    unrest_ = std::max(unrest_, middle / std::max(1.0, *std::min_element(batches.begin(), batches.end())));
    out = middle / static_cast<double>(times) * 1e-9 / 2;
    return then.status();
  }

  /// Less than kLarge on links so slow that others would wait long.
  tutti_status choose_size(uint64_t& large) {
    double each = 0;
    Calls then;
    then([&] { return quickest(kLeastLarge, each); });
    while (large > kLeastLarge && each / 2 * static_cast<double>(large / kLeastLarge) > kLongest) large /= 2;
    then([&] { return agree(large); });
    return then.status();
  }

  tutti_comm* comm_;
  int rank_;
  std::vector<unsigned char> buffer_;
  double unrest_ = 1;
};

/// What the lower rank of a pair tells the others.
struct Told {
  std::array<char, 64> transport;
  std::array<char, 32> nearness;
  double alpha;
  double beta;
  double unrest;
  bool no_slope;
};

template <std::size_t N>
void copy_name(const char* name, std::array<char, N>& into) {
  into.fill(0);
  std::strncpy(into.data(), name != nullptr ? name : "", N - 1);
}

/// The pair's ends, in a communicator of their own: its transport and its links are theirs.
tutti_status measure_pair(tutti_comm* pair, Told& told) {
  int rank = 0;
  LinkMeasured link;
  tutti_comm_choice choice = {};
  choice.size = sizeof choice;
  Calls then;
  then([&] { return tutti_comm_rank(pair, &rank); });
  then([&] { return Pair(pair, rank).measure(link); });
  then([&] { return tutti_comm_last_choice(pair, &choice); });
  copy_name(choice.transport, told.transport);
  copy_name(choice.links, told.nearness);
  told.alpha = link.alpha;
  told.beta = link.beta;
  told.unrest = link.unrest;
  told.no_slope = link.no_slope;
  return then.status();
}

/// By rank, a number for its machine: the lowest rank of the same name.
tutti_status machines_of(const program::RankMember& member, std::vector<int>& machines) {
  using Name = std::array<char, 64>;
  Name own = {};
  const char* const given = std::getenv("TUTTI_MACHINE");
  if (given != nullptr) {
    copy_name(given, own);
  } else {
    gethostname(own.data(), own.size() - 1);
  }
  std::vector<Name> names(at(member.ranks));
  const tutti_status status =
      tutti_all_gather(own.data(), names.data(), own.size(), TUTTI_UINT8, member.comm, kBlocking, nullptr);
  std::map<Name, int> first;
  for (int r = 0; r < member.ranks; ++r) machines.push_back(first.emplace(names[at(r)], r).first->second);
  return status;
}

std::string processor() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name") && line.find(": ") != std::string::npos) return line.substr(line.find(": ") + 2);
  }
  return "an unnamed processor";
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm date = {};
  std::array<char, 32> text = {};
  std::strftime(text.data(), text.size(), "%Y-%m-%d", gmtime_r(&now, &date));
  return text.data();
}

std::string about(std::size_t ranks, std::size_t pairs) {
  const char* const which = ranks <= kMostRanksWhole ? "" : ", whose distances are powers of two";
  return fmt::format("{}, {}, {}: {} ranks, {}{}", processor(),
                     plural(static_cast<std::size_t>(sysconf(_SC_NPROCESSORS_ONLN)), "CPU"), today(), ranks,
                     plural(pairs, "pair"), which);
}

/// Least, median and most, multiplied by `unit`.
struct Spread {
  Spread(const std::vector<const LinkMeasured*>& links, double LinkMeasured::* value, double unit) {
    std::vector<double> values;
    for (const LinkMeasured* link : links) values.push_back(link->*value * unit);
    least = *std::min_element(values.begin(), values.end());
    most = *std::max_element(values.begin(), values.end());
    middle = median(values);
  }
  double least, middle, most;
};

/// Pairs of places on a ring whose distances are the powers of two, about `most`.
std::vector<std::pair<int, int>> sample(int places, int most) {
  std::vector<std::pair<int, int>> pairs;
  int distances = 0;
  for (int64_t d = 1; d < places; d *= 2) ++distances;
  const int from_each = std::max(1, most / distances);
  for (int64_t d = 1; d < places; d *= 2) {
    for (int64_t i = 0; i < from_each; ++i) {
      const auto a = static_cast<int>(i * places / from_each);
      const auto b = static_cast<int>((a + d) % places);
      pairs.emplace_back(std::min(a, b), std::max(a, b));
    }
  }
  return pairs;
}

using Groups = std::map<std::pair<std::string, std::string>, std::vector<const LinkMeasured*>>;

Groups grouped(const std::vector<LinkMeasured>& pairs) {
  Groups groups;
  for (const LinkMeasured& pair : pairs) groups[{pair.transport, pair.nearness}].push_back(&pair);
  return groups;
}

/// Empty where the machine was quiet.
std::string warning(const std::vector<LinkMeasured>& pairs) {
  double most = 1;
  std::size_t without_slope = 0;
  for (const LinkMeasured& pair : pairs) {
    most = std::max(most, pair.unrest);
    without_slope += pair.no_slope ? 1 : 0;
  }
  std::vector<std::string> signs;
  if (most >= kUnrest) {
    signs.push_back(fmt::format("the middle batch took up to {:.3g} times as long as the quickest", most));
  }
  double apart = 1;
  for (const auto& [of, links] : grouped(pairs)) {
    const Spread alpha(links, &LinkMeasured::alpha, 1), beta(links, &LinkMeasured::beta, 1);
    apart = std::max({apart, alpha.most / alpha.least, beta.most / beta.least});
  }
  if (apart >= kApart) signs.push_back(fmt::format("pairs of one class differ {:.3g} times", apart));
  if (without_slope > 0) signs.push_back(fmt::format("for {} more bytes took no longer", plural(without_slope, "pair")));
  if (signs.empty()) return {};
  return fmt::format("{}: measure again on a quiet machine", fmt::join(signs, ", "));
}

void tell(const std::vector<LinkMeasured>& pairs, const std::string& file, program::Output& output) {
  output.line(fmt::format("{:<12} {:<14} {:>6} {:>28} {:>28}", "transport", "links", "pairs", "us a message (min, max)",
                          "ns a byte (min, max)"));
  for (const auto& [of, links] : grouped(pairs)) {
    const Spread alpha(links, &LinkMeasured::alpha, 1e6);
    const Spread beta(links, &LinkMeasured::beta, 1e9);
    const auto text = [](const Spread& s) { return fmt::format("{:.3g} ({:.3g}, {:.3g})", s.middle, s.least, s.most); };
    output.line(
        fmt::format("{:<12} {:<14} {:>6} {:>28} {:>28}", of.first, of.second, links.size(), text(alpha), text(beta)));
    const auto json = [](const Spread& s) {
      program::JsonObject object;
      object.measured("min", s.least).measured("median", s.middle).measured("max", s.most);
      return object;
    };
    program::JsonObject record;
    record.add("transport", of.first).add("links", of.second).add("pairs", uint64_t{links.size()});
    record.add("alpha_us", json(alpha)).add("beta_ns", json(beta));
    record.measured("unrest", Spread(links, &LinkMeasured::unrest, 1).most);
    output.record(record);
  }
  if (const std::string words = warning(pairs); !words.empty()) output.line("# " + words);
  output.line(fmt::format("the tuning table is in {}, for TUTTI_TUNING and `tutti-plan --tuning`", file));
}

/// Collective: the ranks' machines, once rank 0 has found that it can write the file. Returns the exit code.
int prepare(const Request& request, const program::RankMember& member, std::vector<int>& machines,
            program::Output& output) {
  std::string wrong;
  if (member.rank == 0) wrong = program::check_writable("--measure-links", request.links);
  std::uint8_t refused = wrong.empty() ? 0 : 1;
  Calls then;
  then([&] { return tutti_broadcast(&refused, &refused, 1, TUTTI_UINT8, 0, member.comm, kBlocking, nullptr); });
  then([&] { return machines_of(member, machines); });
  if (then.status() != TUTTI_SUCCESS) return output.fail_as(member.rank, member.comm, then.status());
  if (refused == 0) return program::kGood;
  return member.rank == 0 ? output.fail_as(0, program::kWrongUse, wrong) : int{program::kWrongUse};
}

/// Collective: what ranks a and b measure while the others wait, known to all. Returns the exit code.
int measure_between(int a, int b, const program::RankMember& member, Told& told, program::Output& output) {
  const bool mine = member.rank == a || member.rank == b;
  tutti_comm* pair = nullptr;
  Calls then;
  then([&] { return tutti_comm_split(member.comm, mine ? 0 : -1, member.rank, &pair, nullptr); });
  if (mine && then.status() == TUTTI_SUCCESS) {
    const tutti_status status = measure_pair(pair, told);
    const int code = status == TUTTI_SUCCESS ? program::kGood : output.fail_as(member.rank, pair, status);
    if (code != program::kGood) tutti_comm_abort(pair);
    tutti_comm_destroy(pair);
    if (code != program::kGood) return code;
  }
  then([&] { return tutti_broadcast(&told, &told, sizeof told, TUTTI_UINT8, a, member.comm, kBlocking, nullptr); });
  return then.status() == TUTTI_SUCCESS ? program::kGood : output.fail_as(member.rank, member.comm, then.status());
}

}  // namespace

std::vector<std::pair<int, int>> pairs_of(const std::vector<int>& machines) {
  const auto ranks = static_cast<int>(machines.size());
  std::set<std::pair<int, int>> pairs;
  if (ranks <= kMostRanksWhole) {
    for (int a = 0; a < ranks; ++a) {
      for (int b = a + 1; b < ranks; ++b) pairs.emplace(a, b);
    }
    return {pairs.begin(), pairs.end()};
  }
  // Dealt out to machines in turns, ranks at all of those distances may be on different machines.
  std::vector<int> by_machine(machines.size());
  std::iota(by_machine.begin(), by_machine.end(), 0);
  std::stable_sort(by_machine.begin(), by_machine.end(), [&](int a, int b) { return machines[at(a)] < machines[at(b)]; });
  const bool in_order = std::is_sorted(by_machine.begin(), by_machine.end());
  for (const auto& [a, b] : sample(ranks, in_order ? kMostPairs : kMostPairs / 2)) {
    pairs.emplace(a, b);
    if (!in_order) pairs.insert(std::minmax(by_machine[at(a)], by_machine[at(b)]));
  }
  return {pairs.begin(), pairs.end()};
}

std::string table_of(const std::vector<LinkMeasured>& pairs, const std::string& about) {
  std::string text = fmt::format("tutti tuning 1\n# measured by tutti-perf --measure-links on {}\n", about);
  if (const std::string words = warning(pairs); !words.empty()) text += fmt::format("# {}\n", words);
  for (const auto& [of, links] : grouped(pairs)) {
    const Spread micro(links, &LinkMeasured::alpha, 1e6);
    const Spread nano(links, &LinkMeasured::beta, 1e9);
    text += fmt::format("# {}: {:.3g} to {:.3g} us a message, {:.3g} to {:.3g} ns a byte\n", plural(links.size(), "pair"),
                        micro.least, micro.most, nano.least, nano.most);
    text += fmt::format("link {} {} {:.4g} {:.4g}\n", of.first, of.second, Spread(links, &LinkMeasured::alpha, 1).middle,
                        Spread(links, &LinkMeasured::beta, 1).middle);
  }
  return text;
}

int measure_links(const Request& request, const program::RankMember& member, program::Output& output) {
  if (member.ranks < 2) {
    return output.fail_as(member.rank, program::kWrongUse,
                          "--measure-links measures between ranks, and there is one; start 2 or more, as by --ranks 2");
  }
  std::vector<int> machines;
  if (const int code = prepare(request, member, machines, output); code != program::kGood) return code;
  std::vector<LinkMeasured> links;
  for (const auto& [a, b] : pairs_of(machines)) {
    Told told = {};
    if (const int code = measure_between(a, b, member, told, output); code != program::kGood) return code;
    links.push_back({told.transport.data(), told.nearness.data(), told.alpha, told.beta, told.unrest, told.no_slope});
  }
  if (member.rank != 0) return program::kGood;
  const int code = output.file(request.links, table_of(links, about(machines.size(), links.size())));
  if (code == program::kGood) tell(links, request.links, output);
  return code;
}

}  // namespace tutti::perf
