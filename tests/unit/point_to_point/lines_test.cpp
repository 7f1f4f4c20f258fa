// Lines, against lists that are walked; and items by deadline, against their order.
#include "src/point_to_point/lines.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <list>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "src/point_to_point/by_deadline.h"

namespace tutti {
namespace {

struct Item {
  Match match;
  LineNode<Item> node = {};
};
using ItemLines = Lines<Item, &Item::node>;

class Walked {
 public:
  void push(Item& item) { lines_[key(item.match)].push_back(&item); }
  Item* first(const Match& match) {
    const auto found = lines_.find(key(match));
    return found == lines_.end() || found->second.empty() ? nullptr : found->second.front();
  }
  void remove(Item& item) { std::erase(lines_[key(item.match)], &item); }

 private:
  static std::pair<std::uint64_t, int> key(const Match& match) { return {match.tag, match.source}; }
  std::map<std::pair<std::uint64_t, int>, std::deque<Item*>> lines_;
};

TEST(Lines, ServeEachKeyInOrderWhoeverLeavesInBetween) {
  std::mt19937_64 random(3);
  for (const std::uint64_t stride : {std::uint64_t{1}, std::uint64_t{8}, std::uint64_t{1} << 20, std::uint64_t{1} << 60}) {
    ItemLines lines;
    Walked walked;
    std::vector<Item> items(2000);
    std::vector<Item*> standing;
    for (int step = 0; step < 20'000; ++step) {
      Item& item = items[random() % items.size()];
      const auto stands = std::find(standing.begin(), standing.end(), &item);
      if (stands != standing.end()) {
        lines.remove(item);
        walked.remove(item);
        standing.erase(stands);
      } else {
        item.match = {random() % 100 * stride, static_cast<int>(random() % 3) - 1};
        lines.make_room();
        lines.push(item, item.match);
        walked.push(item);
        standing.push_back(&item);
      }
      ASSERT_EQ(lines.first(item.match), walked.first(item.match)) << step;
      ASSERT_EQ(lines.empty(), standing.empty());
    }
    std::size_t left = 0;
    lines.clear([&](Item&) { ++left; });
    EXPECT_EQ(left, standing.size());
    EXPECT_TRUE(lines.empty());
  }
}

// Some leave, and come back to their places.
TEST(Lines, TakeItemsBackInFrontOfThoseThatFollow) {
  struct Numbered {
    int number = 0;
    LineNode<Numbered> node = {};
  };
  std::mt19937 random(11);
  for (int round = 0; round < 200; ++round) {
    Lines<Numbered, &Numbered::node> lines;
    std::vector<Numbered> items(12);
    std::vector<Numbered*> away;
    const auto match_of = [](const Numbered& item) { return Match{static_cast<std::uint64_t>(item.number % 3), 0}; };
    for (std::size_t i = 0; i < items.size(); ++i) {
      items[i].number = static_cast<int>(i);
      lines.make_room();
      lines.push(items[i], match_of(items[i]));
    }
    for (Numbered& item : items) {
      if (random() % 2 != 0) continue;
      lines.remove(item);
      away.push_back(&item);
    }
    std::shuffle(away.begin(), away.end(), random);
    for (Numbered* const item : away) {
      lines.make_room();
      lines.insert(*item, match_of(*item), [item](const Numbered& other) { return other.number > item->number; });
    }
    for (Numbered& item : items) {
      ASSERT_EQ(lines.first(match_of(item)), &item) << item.number << " in round " << round;
      lines.remove(item);
    }
    ASSERT_TRUE(lines.empty());
  }
}

struct Timed {
  Deadline deadline;
  std::uint8_t bucket = 0;
  std::list<Timed>::iterator listed = {};
};

constexpr std::uint64_t millisecond = 1'000'000;

TEST(ByDeadline, FindsTheFirstThatPassesAndNoneBefore) {
  std::mt19937_64 random(5);
  ByDeadline<Timed> items;
  std::list<Timed> ended;
  std::uint64_t now = 12'345'678'901'234;
  std::vector<Timed*> all;
  for (int i = 0; i < 3000; ++i) {
    std::list<Timed> fresh(1);
    fresh.front().deadline = {now + (random() % 60'000) * (i % 3 == 0 ? 1 : millisecond), 1};
    all.push_back(&items.add(fresh));
  }
  while (!all.empty()) {
    now += random() % (20 * millisecond);
    for (Timed* passed = items.look(now); passed != nullptr; passed = items.look(now)) {
      const auto first = std::min_element(
          all.begin(), all.end(), [](const Timed* a, const Timed* b) { return a->deadline.at_ns < b->deadline.at_ns; });
      ASSERT_EQ(passed->deadline.at_ns, (*first)->deadline.at_ns);
      ASSERT_LE(passed->deadline.at_ns, now);
      items.remove(*passed, ended);
      std::erase(all, passed);
    }
    for (const Timed* item : all) ASSERT_GT(item->deadline.at_ns, now);
    if (!all.empty() && random() % 4 == 0) {  // some get more time
      Timed* const one = all[random() % all.size()];
      ASSERT_EQ(items.find([one](const Timed& each) { return &each == one; }), one);
      items.postpone(*one, {one->deadline.at_ns + random() % (50 * millisecond), 1});
    }
    ASSERT_EQ(items.size(), all.size());
    if (!all.empty() && random() % 4 == 0) {  // some end in time
      Timed* const one = all[random() % all.size()];
      items.remove(*one, ended);
      std::erase(all, one);
    }
  }
  EXPECT_TRUE(items.empty());
}

TEST(ByDeadline, LooksTouchNoItemWhoseTimeIsFar) {
  constexpr std::uint64_t count = 100'000;
  for (const std::uint64_t apart : {std::uint64_t{0}, millisecond}) {  // one limit, or a limit of each one's own
    ByDeadline<Timed> items;
    std::list<Timed> fresh(count);
    const std::uint64_t start = 77'777 * millisecond;
    std::uint64_t at = start + 300'000 * millisecond;
    for (Timed& item : fresh) item.deadline = {at += apart, 1};
    while (!fresh.empty()) items.add(fresh);
    for (std::uint64_t look = 0; look < 10'000; ++look) ASSERT_EQ(items.look(start + look * millisecond), nullptr);
    EXPECT_LE(items.steps(), 20 * count) << "each is sorted in, and sorted again where the highest bits of time change";
    std::list<Timed> ended;
    while (!items.empty()) items.remove(items.any(), ended);
  }
}

TEST(ByDeadline, CountsFromTheFirstLookWhereNoPointInTimeIsSet) {
  ByDeadline<Timed> items;
  std::list<Timed> fresh(1);
  fresh.front().deadline = {0, 50 * millisecond};
  Timed& item = items.add(fresh);
  const std::uint64_t before = now_ns();
  EXPECT_EQ(items.look(before), nullptr);
  EXPECT_GE(item.deadline.at_ns, before + 50 * millisecond);
  EXPECT_EQ(items.look(item.deadline.at_ns + 10'000 * millisecond), &item);
}

}  // namespace
}  // namespace tutti
