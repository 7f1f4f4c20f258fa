// Fuzzes what reads schedules: the text's parser, and the verifier behind it. Texts of real schedules are damaged at
// random, the same way in every run; whatever comes in, there is a verdict, and what parses prints and parses again.
#include <gtest/gtest.h>

#include "tests/support/schedules.h"
#include "tests/support/text_fuzzer.h"

namespace tutti::testing {
namespace {

std::vector<std::string> schedules() {
  std::vector<std::string> texts;
  for (const Algorithm* algorithm : all_algorithms()) {
    for (const int ranks : {2, 3}) {
      if (!ranks_fit(*algorithm, ranks)) continue;
      const Schedule schedule = make_schedule(*algorithm, ranks, 0);
      texts.push_back(print_schedule(schedule.plan, schedule.programs));
    }
  }
  return texts;
}

TEST(ScheduleTextFuzz, EndsInAVerdictWhateverComesIn) {
  TextFuzzer fuzzer(schedules(), " \n");
  const VerifyLimits limits{1 << 16, 16, 1 << 16};
  int parsed = 0;
  int proved = 0;
  constexpr int texts = 60000;
  for (int i = 0; i < texts; ++i) {
    const std::string text = fuzzer.next();
    const Result<Schedule> read = parse_schedule(text);
    if (!read.ok()) {
      ASSERT_TRUE(read.status().error().message.starts_with("schedule text, line ")) << read.status().text();
      continue;
    }
    ++parsed;
    const std::string printed = print_schedule(read->plan, read->programs);
    const Result<Schedule> again = parse_schedule(printed);
    ASSERT_TRUE(again.ok()) << again.status().text() << "\n" << printed;
    ASSERT_EQ(print_schedule(again->plan, again->programs), printed);
    const Verdict verdict = verify(read->plan, read->programs, limits);
    ASSERT_EQ(verdict.proved(), verdict.fault.text().empty());
    proved += verdict.proved() ? 1 : 0;
  }
  std::printf("%d texts, %d parsed, %d proved\n", texts, parsed, proved);
  EXPECT_GT(parsed, texts / 50);
  EXPECT_GT(parsed, proved);
}

}  // namespace
}  // namespace tutti::testing
