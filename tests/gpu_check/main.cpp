// gpu_figures: times of one GPU that scripts/gpu-check judges by. One JSON object a line.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "tests/gpu_check/figures.h"

namespace tutti::gpu_check {
namespace {

using nlohmann::json;

struct Figure {
  json (*measure)(const Gpu&, const Asked&);
  const char* is;
};

const std::map<std::string, Figure>& figures() {
  static const std::map<std::string, Figure> all = {
      {"device", {[](const Gpu& gpu, const Asked&) { return describe(gpu); }, "what the device and its driver are"}},
      {"copy", {measure_copy, "a copy within the device"}},
      {"fold", {measure_fold, "a fold of several inputs within the device"}},
      {"launch", {measure_launch, "an empty kernel and an event"}},
      {"release", {measure_release, "a spinning kernel that the host lets go"}},
      {"latency", {measure_latency, "an all_reduce of two ranks on the device"}},
      {"replay", {measure_replay, "the same, launched and replayed by a graph"}},
      {"abort", {measure_abort, "an abort while a kernel waits for a peer"}},
  };
  return all;
}

constexpr int kFailed = 1;
constexpr int kRefused = 2;

int usage(const std::string& why) {
  std::fprintf(stderr,
               "gpu_figures: %s.\nUsage: gpu_figures FIGURE [--device N] [--bytes N[,N...]] [--rounds N] [--type TYPE] "
               "[--inputs N]\n",
               why.c_str());
  for (const auto& [name, figure] : figures()) std::fprintf(stderr, "  %-8s  %s\n", name.c_str(), figure.is);
  return kRefused;
}

/// A whole number from 0 to `most`; -1 for other text.
long long number_of(const std::string& text, long long most) {
  char* end = nullptr;
  const long long value = std::strtoll(text.c_str(), &end, 10);
  return text.empty() || *end != '\0' || value < 0 || value > most ? -1 : value;
}

/// Bytes separated by commas, each a multiple of 4 and above 0; none for other text.
std::vector<std::size_t> sizes_of(const std::string& text) {
  std::vector<std::size_t> sizes;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const long long bytes = number_of(text.substr(begin, end - begin), 1LL << 40);
    if (bytes <= 0 || bytes % 4 != 0) return {};
    sizes.push_back(static_cast<std::size_t>(bytes));
    begin = end + 1;
  }
  return sizes;
}

int measure(const std::string& name, int device, const std::vector<std::size_t>& sizes, Asked asked) {
  const auto driver = cuda::Driver::get();
  json answer = {{"figure", name}};
  const auto tell = [&](const char* what, const std::string& sentence, int exit) {
    answer[what] = sentence;
    std::puts(answer.dump().c_str());
    return exit;
  };
  if (!driver.ok()) return tell("refused", driver.status().text(), kRefused);
  if (device >= (*driver)->device_count()) {
    return tell("refused", "There is no device " + std::to_string(device) + ".", kRefused);
  }
  try {
    const Gpu gpu(**driver, device);
    for (const std::size_t bytes : sizes) {
      json line = answer;
      asked.bytes = bytes;
      line.update(figures().at(name).measure(gpu, asked));
      std::puts(line.dump().c_str());
      std::fflush(stdout);
    }
  } catch (const Lacking& lacking) {
    return tell("lacks", lacking.what(), 0);
  } catch (const std::exception& failure) {
    return tell("error", failure.what(), kFailed);
  }
  return 0;
}

int run(const std::vector<std::string>& words) {
  if (words.empty() || !figures().contains(words[0]))
    return usage(words.empty() ? "no figure is named" : "no such figure: " + words[0]);
  long long device = 0;
  long long rounds = 20;
  long long inputs = 2;
  Asked asked;
  std::vector<std::size_t> sizes = {8};
  for (std::size_t i = 1; i < words.size(); i += 2) {
    const std::string value = i + 1 < words.size() ? words[i + 1] : "";
    if (words[i] == "--device") {
      device = number_of(value, 1 << 10);
    } else if (words[i] == "--rounds") {
      rounds = number_of(value, 1'000'000);
    } else if (words[i] == "--inputs") {
      inputs = number_of(value, 1 << 10);
    } else if (words[i] == "--type") {
      asked.type = value;
    } else if (words[i] == "--bytes") {
      sizes = sizes_of(value);
    } else {
      return usage("there is no option " + words[i]);
    }
    if (device < 0 || rounds < 1 || inputs < 1 || sizes.empty())
      return usage(words[i] + " does not take \"" + value + "\"");
  }
  asked.rounds = static_cast<int>(rounds);
  asked.inputs = static_cast<int>(inputs);
  return measure(words[0], static_cast<int>(device), sizes, asked);
}

}  // namespace
}  // namespace tutti::gpu_check

int main(int count, char** words) { return tutti::gpu_check::run({words + 1, words + count}); }
