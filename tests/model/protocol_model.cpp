// What blocks share (src/executors/cuda/protocol.h) in a model checker. relacy runs many interleavings of a few threads,
// with every value that C++'s memory order lets a load see. Each protocol is tried as it is, and with faults planted one at
// a time, each of which has to be found.
//
// Usage: protocol_model     (exit 0: all as expected; 1: something was found, or was not)
#include <cstdio>
#include <iostream>
#include <type_traits>

#include "src/executors/cuda/protocol.h"

// Behind all others, since it gives words of C++ another meaning.
// clang-format off
#include <relacy/relacy.hpp>
// clang-format on

namespace tutti::model {
namespace {

enum class Fault {
  none,
  relaxed_publish,      ///< a relaxed store in a release's place
  relaxed_arrival,      ///< a relaxed load in an acquire's place
  relaxed_credit,       ///< likewise, of what the receiver has read
  early_credit,         ///< a slot is released before it is read
  one_slot_too_many,    ///< room is seen where there is none
  early_publish,        ///< a message is published before it is written
  data_beside_its_tag,  ///< in a word of its own
  tag_of_the_last,      ///< a tag off by one
  one_tag_for_two,      ///< of a line's two words, the other one's is not looked at
  relaxed_claim,        ///< put back without release
  claim_without_look,   ///< taken by two
  relaxed_turn,
  early_turn,  ///< passed on before the launch is over
  relaxed_departure,
  early_finish,  ///< a task is counted before its last step is done
};

/// Words of protocol.h as relacy's atomics, with the fault's orders.
template <Fault fault>
struct Words {
  using Number = rl::atomic<std::uint64_t>;

  static constexpr rl::memory_order release =
      fault == Fault::relaxed_publish || fault == Fault::relaxed_claim || fault == Fault::relaxed_turn ? rl::mo_relaxed
                                                                                                       : rl::mo_release;
  static constexpr rl::memory_order acquire = fault == Fault::relaxed_arrival ? rl::mo_relaxed : rl::mo_acquire;

  static std::uint64_t load_acquire(const Number& n) { return n(RL_INFO).load(acquire); }
  static std::uint64_t load_relaxed(const Number& n) { return n(RL_INFO).load(rl::mo_relaxed); }
  static void store_release(Number& n, std::uint64_t value) { n(RL_INFO).store(value, release); }
  static void store_relaxed(Number& n, std::uint64_t value) { n(RL_INFO).store(value, rl::mo_relaxed); }
  static void load_pair(const Number* at, std::uint64_t& first, std::uint64_t& second) {
    first = load_relaxed(at[0]);
    second = load_relaxed(at[1]);
  }
  static void store_pair(Number* at, std::uint64_t first, std::uint64_t second) {
    store_relaxed(at[0], first);
    store_relaxed(at[1], second);
  }
  static std::uint64_t add_relaxed(Number& n, std::uint64_t value) { return n(RL_INFO).fetch_add(value, rl::mo_relaxed); }
  static std::uint64_t add_acq_rel(Number& n, std::uint64_t value) {
    return n(RL_INFO).fetch_add(value, fault == Fault::relaxed_departure ? rl::mo_relaxed : rl::mo_acq_rel);
  }
  static bool exchange_acquire(Number& n, std::uint64_t expected, std::uint64_t desired) {
    if constexpr (fault == Fault::claim_without_look) {
      if (n(RL_INFO).load(rl::mo_acquire) != expected) return false;
      n(RL_INFO).store(desired, rl::mo_relaxed);
      return true;
    } else {
      return n(RL_INFO).compare_exchange_strong(expected, desired, acquire, rl::mo_relaxed);
    }
  }
};

/// The same with relaxed credit alone.
struct RelaxedStores : Words<Fault::none> {
  static void store_release(Number& n, std::uint64_t value) { n(RL_INFO).store(value, rl::mo_relaxed); }
};

void wait() { rl::yield(1, RL_INFO); }

constexpr std::uint64_t messages = 3;
constexpr std::uint64_t slots = 2;

/// A link: one end writes messages into slots, the other reads them.
template <Fault fault>
struct LinkModel : rl::test_suite<LinkModel<fault>, 2> {
  using Sender = SendingEnd<Words<fault>>;
  using Receiver = ReceivingEnd<Words<fault == Fault::relaxed_publish ? Fault::none : fault>>;
  using LooseReceiver = ReceivingEnd<RelaxedStores>;
  rl::atomic<std::uint64_t> arrived, credit;
  rl::var<std::uint64_t> slot[slots];

  void before() {
    arrived(RL_INFO) = 0;
    credit(RL_INFO) = 0;
  }
  void thread(unsigned rank) { rank == 0 ? send() : receive(); }
  void send() {
    const Sender end{&credit, &arrived, fault == Fault::one_slot_too_many ? slots + 1 : slots};
    for (std::uint64_t n = 0; n < messages; ++n) {
      while (!end.has_room(n)) wait();
      if (fault == Fault::early_publish) end.publish(n);
      slot[n % slots](RL_INFO) = 10 + n;
      if (fault != Fault::early_publish) end.publish(n);
    }
  }
  void receive() {
    const Receiver end{&arrived, &credit};
    for (std::uint64_t n = 0; n < messages; ++n) {
      while (!end.has_come(n)) wait();
      if (fault == Fault::early_credit) end.release(n);
      RL_ASSERT(slot[n % slots](RL_INFO) == 10 + n);
      if (fault == Fault::relaxed_credit) {
        LooseReceiver{&arrived, &credit}.release(n);
      } else if (fault != Fault::early_credit) {
        end.release(n);
      }
    }
  }
};

/// A link through the pump: a block posts orders in a ring, the pump moves the data that they name and publishes it to the
/// receiver's block. The ring is a link too, whose messages are orders in pinned memory and whose receiver is a host
/// thread.
template <Fault fault>
struct RingModel : rl::test_suite<RingModel<fault>, 3> {
  using Poster = SendingEnd<Words<fault>>;
  using Pump = ReceivingEnd<std::conditional_t<fault == Fault::relaxed_credit, RelaxedStores, Words<fault>>>;
  using Sound = Words<Fault::none>;
  struct Order {
    rl::var<std::uint64_t> staged, message;  // several words, which a link's count covers at once
  };
  rl::atomic<std::uint64_t> tail, head, arrived, credit;
  Order ring[slots];
  rl::var<std::uint64_t> staging[slots], slot[slots];

  void before() {
    for (auto* count : {&tail, &head, &arrived, &credit}) (*count)(RL_INFO) = 0;
  }
  void thread(unsigned who) {
    if (who == 0) return post();
    if (who == 1) return pump();
    receive();
  }
  void post() {
    const Poster end{&head, &tail, fault == Fault::one_slot_too_many ? slots + 1 : slots};
    for (std::uint64_t n = 0; n < messages; ++n) {
      while (!end.has_room(n)) wait();
      if (fault == Fault::early_publish) end.publish(n);
      staging[n % slots](RL_INFO) = 10 + n;
      ring[n % slots].staged(RL_INFO) = n % slots;
      ring[n % slots].message(RL_INFO) = n;
      if (fault != Fault::early_publish) end.publish(n);
    }
  }
  void pump() {
    const Pump orders{&tail, &head};
    const SendingEnd<Sound> wire{&credit, &arrived, slots};
    for (std::uint64_t n = 0; n < messages; ++n) {
      while (!orders.has_come(n)) wait();
      while (!wire.has_room(n)) wait();
      if (fault == Fault::early_credit) orders.release(n);
      const Order& order = ring[n % slots];
      slot[order.message(RL_INFO) % slots](RL_INFO) = staging[order.staged(RL_INFO)](RL_INFO);
      wire.publish(n);
      if (fault != Fault::early_credit) orders.release(n);
    }
  }
  void receive() {
    const ReceivingEnd<Sound> end{&arrived, &credit};
    for (std::uint64_t n = 0; n < messages; ++n) {
      while (!end.has_come(n)) wait();
      RL_ASSERT(slot[n % slots](RL_INFO) == 10 + n);
      end.release(n);
    }
  }
};

/// Lines: messages of one line each, of which nothing but the tags in its two words tells.
template <Fault fault>
struct LineModel : rl::test_suite<LineModel<fault>, 2> {
  using W = Words<Fault::none>;
  rl::atomic<std::uint64_t> line[slots][2], beside[slots], credit, unused;

  void before() {
    for (std::uint64_t s = 0; s < slots; ++s) {
      line[s][0](RL_INFO) = 0;
      line[s][1](RL_INFO) = 0;
      beside[s](RL_INFO) = 0;
    }
    credit(RL_INFO) = 0;
    unused(RL_INFO) = 0;
  }
  void thread(unsigned rank) { rank == 0 ? send() : receive(); }
  static std::uint64_t data_of(std::uint64_t n) { return (n + 7) << 32 | (10 + n); }
  void send() {
    const SendingEnd<W> end{&credit, &unused, slots};
    for (std::uint64_t n = 0; n < messages; ++n) {
      while (!end.has_room(n)) wait();
      if (fault == Fault::data_beside_its_tag) W::store_relaxed(beside[n % slots], data_of(n));
      Line<W>::put(line[n % slots], n, data_of(n));
    }
  }
  /// With the fault, one word's tag is taken for both.
  static bool get(const rl::atomic<std::uint64_t>* at, std::uint64_t n, std::uint64_t& data) {
    if (fault != Fault::one_tag_for_two) return Line<W>::get(at, n, data);
    const std::uint64_t low = W::load_relaxed(at[0]), high = W::load_relaxed(at[1]);
    data = high << 32 | (low & 0xffffffffu);
    return low >> 32 << 32 == Line<W>::tag_of(n);
  }
  void receive() {
    const ReceivingEnd<W> end{&unused, &credit};
    for (std::uint64_t n = 0; n < messages; ++n) {
      std::uint64_t data = 0;
      // A tag off by one takes what lay in the slot before for the message.
      const std::uint64_t expected = fault == Fault::tag_of_the_last && n >= slots ? n - slots : n;
      while (!get(line[n % slots], expected, data)) wait();
      if (fault == Fault::data_beside_its_tag) data = W::load_relaxed(beside[n % slots]);
      RL_ASSERT(data == data_of(n));
      end.release(n);
    }
  }
};

/// A task that two blocks work on in turn, whoever has it.
template <Fault fault>
struct ClaimModel : rl::test_suite<ClaimModel<fault>, 2> {
  using W = Words<fault>;
  static constexpr std::uint64_t steps = 2;
  rl::atomic<std::uint64_t> claim;
  rl::var<std::uint64_t> step;

  void before() {
    claim(RL_INFO) = 0;
    step(RL_INFO) = 0;
  }
  void thread(unsigned) {
    for (std::uint64_t done = 0; done < steps;) {
      while (!Claim<W>::take(claim)) wait();
      step(RL_INFO) = step(RL_INFO) + 1;
      ++done;
      Claim<W>::put_back(claim);
    }
  }
  void after() { RL_ASSERT(step(RL_INFO) == 2 * steps); }
};

/// Racing replays of two graphs of one communicator.
template <Fault fault>
struct TurnModel : rl::test_suite<TurnModel<fault>, 3> {
  using W = Words<fault>;
  rl::atomic<std::uint64_t> next, serving;
  rl::var<std::uint64_t> state, numbers;

  void before() {
    next(RL_INFO) = 0;
    serving(RL_INFO) = 0;
    state(RL_INFO) = 0;
    numbers(RL_INFO) = 0;
  }
  void thread(unsigned) {
    const Turns<W> turns{&next, &serving};
    const std::uint64_t number = turns.take();
    while (!turns.has_come(number)) wait();
    if (fault == Fault::early_turn) turns.pass(number);
    RL_ASSERT(state(RL_INFO) == number);
    state(RL_INFO) = number + 1;
    if (fault != Fault::early_turn) turns.pass(number);
  }
};

/// Two tasks of a rank's job, in two blocks, and the job behind it, which reads what they wrote and writes over it. The
/// last of them counts for the launch.
template <Fault fault>
struct ProgressModel : rl::test_suite<ProgressModel<fault>, 3> {
  using W = Words<fault>;
  static constexpr std::uint64_t tasks = 2;
  rl::atomic<std::uint64_t> finished, jobs;
  rl::var<std::uint64_t> data[tasks];

  void before() {
    finished(RL_INFO) = 0;
    jobs(RL_INFO) = 0;
    for (auto& each : data) each(RL_INFO) = 0;
  }
  void thread(unsigned block) {
    if (block < tasks) {
      if (fault == Fault::early_finish) finish();
      data[block](RL_INFO) = 1;
      if (fault != Fault::early_finish) finish();
      return;
    }
    while (!Progress<W>::is_finished(finished, tasks)) wait();
    for (auto& each : data) {
      RL_ASSERT(each(RL_INFO) == 1);
      each(RL_INFO) = 2;
    }
  }
  void after() { RL_ASSERT(jobs(RL_INFO) == 1); }
  void finish() {
    if (Progress<W>::finish(finished, tasks)) W::add_acq_rel(jobs, 1);
  }
};

/// Blocks that leave a launch, of which the last one tells.
template <Fault fault>
struct DepartureModel : rl::test_suite<DepartureModel<fault>, 3> {
  using W = Words<fault>;
  rl::atomic<std::uint64_t> left;
  rl::var<std::uint64_t> done[3];
  rl::var<std::uint64_t> told;

  void before() {
    left(RL_INFO) = 0;
    told(RL_INFO) = 0;
    for (auto& block : done) block(RL_INFO) = 0;
  }
  void thread(unsigned block) {
    done[block](RL_INFO) = 1;
    if (!Departures<W>::is_last(left, 3)) return;
    RL_ASSERT(done[0](RL_INFO) + done[1](RL_INFO) + done[2](RL_INFO) == 3);
    told(RL_INFO) = told(RL_INFO) + 1;
  }
  void after() { RL_ASSERT(told(RL_INFO) == 1); }
};

int wrong = 0;

/// Runs one model many times, by chance. Whether nothing was found; runs: how many there were.
template <class Model>
bool is_clean(std::ostream& out, rl::iteration_t& runs) {
  rl::test_params params;
  params.output_stream = params.progress_stream = &out;
  params.iteration_count = 100'000;
  const bool clean = rl::simulate<Model>(params);
  runs = params.stop_iteration;
  return clean;
}

template <class Model>
void explore(const char* name, bool sound) {
  std::ostream nowhere(nullptr);  // no strings here: relacy replaces this file's operator new, and not the library's
  rl::iteration_t runs = 0;
  const bool clean = is_clean<Model>(nowhere, runs);
  std::printf("%-22s %s in %llu runs%s\n", name, clean ? "nothing found" : "found", static_cast<unsigned long long>(runs),
              clean == sound ? "" : ": NOT AS EXPECTED");
  if (clean == sound) return;
  ++wrong;
  is_clean<Model>(std::cout, runs);
}

void explore_all() {
  explore<LinkModel<Fault::none>>("link", true);
  explore<LinkModel<Fault::relaxed_publish>>("  relaxed publish", false);
  explore<LinkModel<Fault::relaxed_arrival>>("  relaxed arrival", false);
  explore<LinkModel<Fault::relaxed_credit>>("  relaxed credit", false);
  explore<LinkModel<Fault::early_credit>>("  early credit", false);
  explore<LinkModel<Fault::one_slot_too_many>>("  one slot too many", false);
  explore<LinkModel<Fault::early_publish>>("  early publish", false);
  explore<RingModel<Fault::none>>("ring", true);
  explore<RingModel<Fault::relaxed_publish>>("  relaxed post", false);
  explore<RingModel<Fault::relaxed_arrival>>("  relaxed look", false);
  explore<RingModel<Fault::relaxed_credit>>("  relaxed release", false);
  explore<RingModel<Fault::early_credit>>("  early release", false);
  explore<RingModel<Fault::one_slot_too_many>>("  one order too many", false);
  explore<RingModel<Fault::early_publish>>("  early post", false);
  explore<LineModel<Fault::none>>("line", true);
  explore<LineModel<Fault::data_beside_its_tag>>("  data beside its tag", false);
  explore<LineModel<Fault::tag_of_the_last>>("  tag of the last", false);
  explore<LineModel<Fault::one_tag_for_two>>("  one tag for two words", false);
  explore<ClaimModel<Fault::none>>("claim", true);
  explore<ClaimModel<Fault::relaxed_claim>>("  relaxed claim", false);
  explore<ClaimModel<Fault::relaxed_arrival>>("  relaxed take", false);
  explore<ClaimModel<Fault::claim_without_look>>("  claim without look", false);
  explore<TurnModel<Fault::none>>("turn", true);
  explore<TurnModel<Fault::relaxed_turn>>("  relaxed turn", false);
  explore<TurnModel<Fault::relaxed_arrival>>("  relaxed wait", false);
  explore<TurnModel<Fault::early_turn>>("  early turn", false);
  explore<ProgressModel<Fault::none>>("progress", true);
  explore<ProgressModel<Fault::relaxed_departure>>("  relaxed finish", false);
  explore<ProgressModel<Fault::relaxed_arrival>>("  relaxed wait", false);
  explore<ProgressModel<Fault::early_finish>>("  early finish", false);
  explore<DepartureModel<Fault::none>>("departure", true);
  explore<DepartureModel<Fault::relaxed_departure>>("  relaxed departure", false);
}

}  // namespace
}  // namespace tutti::model

int main() {
  tutti::model::explore_all();
  return tutti::model::wrong == 0 ? 0 : 1;
}
