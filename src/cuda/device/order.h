// Memory order between kernels, and between kernels and the host. Every access to a word that two sides share goes through
// here, and says which edge it is. The scope is the system but for what stays on one device. No stand-alone fences.
//
//   edge                 writer                                     reader
//   payload, `arrived`   weak stores, barrier, publish              poll, acquire once, barrier, weak loads
//   consumed, `credit`   weak loads, barrier, publish               acquire before the slot is overwritten
//   line                 write_line                                 read_line until the tags match: one scalar holds both
//   done                 barrier, count_in, the last one publishes  the host's acquire on pinned memory
//   turn                 the last block publishes on the device     the first block acquires on the device, barrier
//   claim                publish_on_device, when it is put back     claim
#pragma once

#include "src/cuda/device/group.h"

namespace tutti::device {

/// Looks at a word again and again. Relaxed: what is behind it is read only after an acquire of the value that was seen.
template <typename T>
TUTTI_DEVICE T poll(const T* word) {
  return native::load_relaxed(word);
}

/// Reads a word and, behind it, all that its writer wrote before it published. By one thread; a barrier passes it on to its
/// block. Acquire: pairs with publish.
template <typename T>
TUTTI_DEVICE T acquire(const T* word) {
  return native::load_acquire(word);
}

/// Writes a word for another device or the host. By one thread, after a barrier that gathers what its block wrote and read.
/// Release: whoever acquires the value sees all of that.
template <typename T>
TUTTI_DEVICE void publish(T* word, T value) {
  native::store_release(word, value);
}

/// The same two within one device, which is cheaper: the turn of launches, and claims of tasks.
template <typename T>
TUTTI_DEVICE T acquire_on_device(const T* word) {
  return native::load_acquire_on_device(word);
}
template <typename T>
TUTTI_DEVICE void publish_on_device(T* word, T value) {
  native::store_release_on_device(word, value);
}

/// Takes a task: whether the word was `expected`, and is `wanted` now. By one thread of a block. Acquire: what the block
/// that had it before left in the task's state is seen. Taking publishes nothing, so it needs no release.
template <typename Word>
TUTTI_DEVICE bool claim(Word* word, Word expected, Word wanted) {
  return native::swap_on_device(word, expected, wanted) == expected;
}

/// Counts a block in: how many were before it. Acquire and release: the last one has seen what all others wrote, and hands
/// it on when it publishes `done`.
template <typename Word>
TUTTI_DEVICE Word count_in(Word* counter) {
  return native::add_on_device(counter, Word{1});
}

/// Two words {4 bytes of data, 4 of tag} of a line, 16-byte aligned. Relaxed: a word's tag came with its data in one
/// scalar, and nothing else is concluded from it. The two words may arrive in any order, so each has a tag.
template <typename Word>
TUTTI_DEVICE void read_line(const Word* line, Word& first, Word& second) {
  native::load_pair(line, first, second);
}
template <typename Word>
TUTTI_DEVICE void write_line(Word* line, Word first, Word second) {
  native::store_pair(line, first, second);
}

}  // namespace tutti::device
