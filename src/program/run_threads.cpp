#include "src/program/run_threads.h"

#include <fmt/format.h>

#include <atomic>
#include <exception>
#include <thread>
#include <vector>

namespace tutti::program {
namespace {

enum Word : int { kWait, kBegin, kLeave };

}  // namespace

std::string run_threads(int ranks, const std::function<void(int rank)>& body) {
  // Relaxed everywhere: the word is all that is told. What the bodies read was written before their threads were made.
  std::atomic<int> word{kWait};
  std::vector<std::thread> threads;
  std::string sentence;
  try {
    threads.reserve(static_cast<std::size_t>(ranks));
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        word.wait(kWait, std::memory_order_relaxed);
        if (word.load(std::memory_order_relaxed) == kBegin) body(rank);
      });
    }
  } catch (const std::exception& error) {
    sentence = fmt::format(
        "cannot start a thread for rank {} of {}: {}; ask for fewer ranks, or raise `ulimit -v` or "
        "`ulimit -u`",
        threads.size(), ranks, error.what());
  }
  word.store(sentence.empty() ? kBegin : kLeave, std::memory_order_relaxed);
  word.notify_all();
  for (std::thread& thread : threads) thread.join();
  return sentence;
}

}  // namespace tutti::program
