// Lines: first come, first served, one line per key. This is a hash table of intrusive lists. An item needs no
// memory besides itself, and an operation's time does not depend on how many items wait.
//
//     heads_  ├─ first of a line ── chained ─→ first of another line ─→ …
//                  │ next                           (the last of a line is known to its first)
//                  ▼
//                second of that line
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace tutti {

/// What a receive and a message must have in common; the source is TUTTI_ANY_SOURCE where it may be any.
struct Match {
  std::uint64_t tag = 0;
  int source = 0;
  bool operator==(const Match&) const = default;
};

/// An item's place in a line.
template <typename T>
struct LineNode {
  Match match;
  T* next = nullptr;      ///< in its line
  T* previous = nullptr;  ///< nullptr: it is the first
  T* last = nullptr;      ///< of its line; known to the first alone
  T* chained = nullptr;   ///< from first to first of the lines with one hash value
};

/// Lines of items, which are the caller's; an item stands in at most one line for each of its places.
template <typename T, LineNode<T> T::* node>
class Lines {
 public:
  bool empty() const { return lines_ == 0; }

  /// Makes room for one more line. Throws std::bad_alloc, and then nothing has changed.
  void make_room() {
    if (lines_ < heads_.size()) return;
    std::vector<T*> old(heads_.empty() ? least_heads : 2 * heads_.size());
    old.swap(heads_);
    for (T* first : old) {
      while (first != nullptr) {
        T* const next = (first->*node).chained;
        T*& head = heads_[slot((first->*node).match)];
        (first->*node).chained = std::exchange(head, first);
        first = next;
      }
    }
  }

  /// Appends to its key's line. make_room must have been called since the last push.
  void push(T& item, const Match& match) {
    LineNode<T>& at = item.*node;
    at = {match};
    T*& link = find(match);
    if (link == nullptr) {
      at.last = link = &item;
      ++lines_;
      return;
    }
    T*& last = (link->*node).last;
    at.previous = last;
    (last->*node).next = &item;
    last = &item;
  }

  /// As push, but in front of the first item that `follows` is true of.
  template <typename Follows>
  void insert(T& item, const Match& match, const Follows& follows) {
    T* next = first(match);
    while (next != nullptr && !follows(*next)) next = (next->*node).next;
    if (next == nullptr) return push(item, match);
    LineNode<T>& at = item.*node;
    LineNode<T>& behind = next->*node;
    at = {match, next, behind.previous};
    behind.previous = &item;
    if (at.previous != nullptr) {
      (at.previous->*node).next = &item;
      return;
    }
    at.last = behind.last;
    at.chained = behind.chained;
    find(match) = &item;
  }

  /// The first item of a key's line; nullptr where the line is empty.
  T* first(const Match& match) { return empty() ? nullptr : find(match); }

  /// Removes an item from its line, at any position.
  void remove(T& item) {
    LineNode<T>& at = item.*node;
    if (at.previous == nullptr) return remove_first(item);
    (at.previous->*node).next = at.next;
    if (at.next != nullptr) {
      (at.next->*node).previous = at.previous;
    } else if (T* const first = find(at.match); first != nullptr) {  // every line has a first
      (first->*node).last = at.previous;
    }
  }

  /// Takes out everything; `each` is called with every item.
  template <typename Each>
  void clear(Each each) {
    for (T* first : std::exchange(heads_, {})) {
      while (first != nullptr) {
        T* const chained = (first->*node).chained;
        for (T* item = first; item != nullptr;) each(*std::exchange(item, (item->*node).next));
        first = chained;
      }
    }
    lines_ = 0;
  }
  void clear() {
    heads_ = {};
    lines_ = 0;
  }

 private:
  static constexpr std::size_t least_heads = 64;

  /// Heads of consecutive tags share a cache line, since most programs count tags up or down.
  std::size_t slot(const Match& match) const {
    constexpr int line_bits = 3;
    constexpr std::uint64_t golden = 0x9e3779b97f4a7c15;
    std::uint64_t hash = (match.tag >> line_bits) + static_cast<std::uint64_t>(match.source) * golden;
    for (const std::uint64_t factor : {0xff51afd7ed558ccdu, 0xc4ceb9fe1a85ec53u}) hash = (hash ^ hash >> 33) * factor;
    const std::uint64_t within = (match.tag ^ hash >> 61) & ((1u << line_bits) - 1);
    return (hash >> 20 << line_bits | within) & (heads_.size() - 1);
  }

  /// The pointer to the first item of a line, or the null pointer at the end of the chain.
  T*& find(const Match& match) {
    T** link = &heads_[slot(match)];
    while (*link != nullptr && ((*link)->*node).match != match) link = &((*link)->*node).chained;
    return *link;
  }

  void remove_first(T& item) {
    const LineNode<T>& at = item.*node;
    T*& link = find(at.match);
    if (at.next == nullptr) {
      link = at.chained;
      --lines_;
      return;
    }
    LineNode<T>& next = at.next->*node;
    next.previous = nullptr;
    next.last = at.last;
    next.chained = at.chained;
    link = at.next;
  }

  std::vector<T*> heads_;  ///< of a power of two
  std::size_t lines_ = 0;
};

}  // namespace tutti
