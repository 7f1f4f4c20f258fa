#include "src/executors/simulator/flows.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <utility>

namespace tutti::simulator {
namespace {

/// Sums of rates that differ by less are equal.
constexpr double near = 1e-10;
/// Bits of a rate's fraction that are told: a grid of 5e-10.
constexpr int kept = 31;

/// The rate on the grid. Flows that share alike are told the same rate to the bit, in whichever order links were looked at
/// and sums were taken: what is in step stays in step, and what a run gives does not depend on who stands for whom. (Where
/// many flows take turns, a run is chaotic: without this, the last bit of a rate shows in the fourth digit of the time a
/// hundred messages later.) Numbers with few digits are on the grid, and steps change far from them and from their halves.
double on_grid(double rate) {
  constexpr std::uint64_t step = std::uint64_t{1} << (52 - kept);
  constexpr std::uint64_t up = step * 41 / 100;
  return std::bit_cast<double>((std::bit_cast<std::uint64_t>(rate) + up) & ~(step - 1));
}

}  // namespace

Flows::Flows(FlowRoutes routes)
    : routes_(std::move(routes)),
      flows_(routes_.first.size() - 1),
      links_(routes_.capacity.size()),
      place_on_link_(routes_.link.size()) {}

void Flows::set(std::uint32_t flow, bool wanted) {
  Flow& f = flows_[flow];
  f.wanted = wanted;
  if (f.said) return;
  f.said = true;
  said_.push_back(flow);
}

void Flows::attach(std::uint32_t flow) {
  flows_[flow].place = static_cast<std::uint32_t>(active_.size());
  active_.push_back(flow);
  for (std::uint64_t hop = routes_.first[flow]; hop < routes_.first[flow + 1]; ++hop) {
    std::vector<Entry>& entries = links_[routes_.link[hop]].entries;
    place_on_link_[hop] = static_cast<std::uint32_t>(entries.size());
    entries.push_back({flow, static_cast<std::uint32_t>(hop - routes_.first[flow])});
  }
}

void Flows::detach(std::uint32_t flow) {
  Flow& f = flows_[flow];
  flows_[active_.back()].place = f.place;
  active_[f.place] = active_.back();
  active_.pop_back();
  f.place = none;
  f.bottleneck = none;
  f.rate = f.told = 0;
  for (std::uint64_t hop = routes_.first[flow]; hop < routes_.first[flow + 1]; ++hop) {
    std::vector<Entry>& entries = links_[routes_.link[hop]].entries;
    const Entry last = entries.back();
    entries[place_on_link_[hop]] = last;
    place_on_link_[routes_.first[last.flow] + last.hop] = place_on_link_[hop];
    entries.pop_back();
  }
}

void Flows::choose(std::uint32_t flow) {
  Flow& f = flows_[flow];
  if (is_chosen(f)) return;
  f.chosen = round_;
  f.next = f.rate;
  chosen_.push_back(flow);
}

const std::vector<std::uint32_t>& Flows::settle() {
  ++round_;
  chosen_.clear();
  changed_.clear();
  come_and_go();
  do {
    water_fill();
  } while (choose_without_bottleneck());
  for (const std::uint32_t flow : chosen_) {
    Flow& f = flows_[flow];
    f.rate = f.next;
    const double told = on_grid(f.rate);
    if (told == f.told) continue;
    f.told = told;
    if (!f.said) changed_.push_back(flow);
  }
  for (const std::uint32_t flow : said_) {
    flows_[flow].said = false;
    if (flows_[flow].wanted) changed_.push_back(flow);
  }
  said_.clear();
  return changed_;
}

/// Does what was said, and chooses those whose rates it may change at once.
void Flows::come_and_go() {
  for (const std::uint32_t flow : said_) {
    if (!flows_[flow].wanted && flows_[flow].place != none) detach(flow);
  }
  for (const std::uint32_t flow : said_) {
    Flow& f = flows_[flow];
    if (f.wanted && f.place == none) {
      attach(flow);
      choose(flow);
    } else if (!f.wanted) {
      choose_held_up(flow);
    }
  }
  ++pass_;
}

/// Chooses whoever was held up by a link that the flow has left: he may be faster now.
void Flows::choose_held_up(std::uint32_t flow) {
  for (std::uint64_t hop = routes_.first[flow]; hop < routes_.first[flow + 1]; ++hop) {
    const std::uint32_t link = routes_.link[hop];
    if (links_[link].seen == pass_ + 1) continue;
    links_[link].seen = pass_ + 1;
    for (const Entry& entry : links_[link].entries) {
      if (flows_[entry.flow].bottleneck == link) choose(entry.flow);
    }
  }
}

/// Lists the links of the chosen flows, with what the others leave of them.
void Flows::touch_links() {
  ++pass_;
  touched_.clear();
  for (const std::uint32_t flow : chosen_) {
    flows_[flow].frozen = false;
    for (std::uint64_t hop = routes_.first[flow]; hop < routes_.first[flow + 1]; ++hop) {
      Link& link = links_[routes_.link[hop]];
      if (link.seen != pass_) {
        link.seen = pass_;
        link.free = routes_.capacity[routes_.link[hop]];
        link.weight = 0;
        touched_.push_back(routes_.link[hop]);
      }
      link.weight += weight_of(hop);
    }
  }
  if (chosen_.size() == active_.size()) return;
  for (const std::uint32_t index : touched_) {
    Link& link = links_[index];
    for (const Entry& entry : link.entries) {
      const Flow& flow = flows_[entry.flow];
      if (!is_chosen(flow)) link.free -= flow.rate * weight_of(routes_.first[entry.flow] + entry.hop);
    }
    link.free = std::max(0.0, link.free);
  }
}

/// Finds the chosen flows' rates, all others as they are: the link that gives each of its flows least is filled first.
void Flows::water_fill() {
  touch_links();
  heap_.clear();
  for (const std::uint32_t index : touched_) heap_.emplace_back(links_[index].free / links_[index].weight, index);
  std::make_heap(heap_.begin(), heap_.end(), std::greater<>());
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
    const auto [share, index] = heap_.back();
    heap_.pop_back();
    const Link& link = links_[index];
    if (link.weight < 0.5) continue;  // weights are whole numbers
    // Shares only grow as others are found: an old one is put back with what it is now.
    const double now = std::max(0.0, link.free) / link.weight;
    if (now > share) {
      heap_.emplace_back(now, index);
      std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
    } else {
      freeze(index, now);
    }
  }
  for (const std::uint32_t flow : chosen_) {
    if (routes_.first[flow] == routes_.first[flow + 1]) flows_[flow].next = std::numeric_limits<double>::infinity();
  }
}

void Flows::freeze(std::uint32_t index, double share) {
  for (const Entry& entry : links_[index].entries) {
    Flow& flow = flows_[entry.flow];
    if (!is_chosen(flow) || flow.frozen) continue;
    flow.frozen = true;
    flow.next = share;
    flow.bottleneck = index;
    for (std::uint64_t hop = routes_.first[entry.flow]; hop < routes_.first[entry.flow + 1]; ++hop) {
      Link& other = links_[routes_.link[hop]];
      other.free -= share * weight_of(hop);
      other.weight -= weight_of(hop);
    }
  }
}

/// Chooses the flows that the new rates leave without a bottleneck. Returns whether there are any.
bool Flows::choose_without_bottleneck() {
  if (chosen_.size() == active_.size()) return false;
  const std::size_t before = chosen_.size();
  for (const std::uint32_t link : touched_) look_at(link);
  const bool any = chosen_.size() > before;
  // Most would be found in the end.
  if (any && chosen_.size() * 2 > active_.size()) {
    for (const std::uint32_t flow : active_) choose(flow);
  }
  return any;
}

void Flows::look_at(std::uint32_t index) {
  double load = 0, fastest = 0;
  double held_up = std::numeric_limits<double>::infinity();
  for (const Entry& entry : links_[index].entries) {
    const Flow& flow = flows_[entry.flow];
    const double rate = is_chosen(flow) ? flow.next : flow.rate;
    load += rate * weight_of(routes_.first[entry.flow] + entry.hop);
    fastest = std::max(fastest, rate);
    if (is_chosen(flow) && flow.bottleneck == index) held_up = std::min(held_up, rate);
  }
  const bool full = load >= routes_.capacity[index] * (1 - near);
  for (const Entry& entry : links_[index].entries) {
    const Flow& flow = flows_[entry.flow];
    if (is_chosen(flow)) continue;
    const bool lost = flow.bottleneck == index && (!full || flow.rate < fastest * (1 - near));
    if (lost || flow.rate > held_up * (1 + near)) choose(entry.flow);
  }
}

}  // namespace tutti::simulator
