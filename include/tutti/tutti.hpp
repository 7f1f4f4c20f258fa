// Tutti in C++: RAII over tutti.h, with std::span, and exceptions or std::error_code at the caller's choice.
//
//     std::vector<float> gradients(1000);
//
//     tutti::Communicator comm("env://");  // throws tutti::Failure
//     comm.all_reduce(gradients);          // in place: vectors, arrays, spans, whatever lies in one piece
//     std::vector<float> all(gradients.size() * static_cast<std::size_t>(comm.size()));
//     comm.all_gather(gradients, all);
//
//     std::error_code why;
//     comm.broadcast(gradients, 0, why);  // does not throw
//
//     tutti::Queue queue;                 // behind the caller's back
//     tutti::Work sum;
//     comm.all_reduce(gradients, TUTTI_SUM, tutti::Options(queue.stream()).reproducible().work(sum));
//     sum.wait();
//
// Header-only: it uses the C face alone. Objects are movable, not copyable. Thread safety is tutti.h's.
#ifndef TUTTI_TUTTI_HPP_
#define TUTTI_TUTTI_HPP_

#if __cplusplus < 202002L
#error "tutti/tutti.hpp takes C++20: compile with -std=c++20, or use tutti/tutti.h"
#endif

#include <algorithm>
#include <chrono>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <ranges>
#include <span>
#include <stdexcept>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include "tutti.h"

namespace tutti {

/// std::error_code's category of tutti_status.
inline const std::error_category& status_category() {
  struct Category final : std::error_category {
    const char* name() const noexcept override { return "tutti"; }
    std::string message(int status) const override { return tutti_status_string(static_cast<tutti_status>(status)); }
  };
  static const Category category;
  return category;
}

/// What a throwing call throws: the status as code(), the library's sentence as what(), the remedy beside it.
class Failure : public std::system_error {
 public:
  Failure(tutti_status status, const std::string& message, std::string remedy)
      : std::system_error(static_cast<int>(status), status_category()), message_(message), remedy_(std::move(remedy)) {}
  /// The sentence alone; std::system_error would append the status to it.
  const char* what() const noexcept override { return message_.empty() ? std::system_error::what() : message_.c_str(); }
  tutti_status status() const { return static_cast<tutti_status>(code().value()); }
  const std::string& remedy() const { return remedy_; }

 private:
  std::string message_;
  std::string remedy_;
};

namespace detail {

inline void check(tutti_status status) {
  if (status == TUTTI_SUCCESS) return;
  tutti_error error{};
  error.size = sizeof error;
  static_cast<void>(tutti_error_get(nullptr, &error));
  throw Failure(status, error.message, error.remedy);
}

/// Of a creation, which with tutti_config.non_blocking goes on.
inline void check_begun(tutti_status status) {
  if (status != TUTTI_IN_PROGRESS) check(status);
}

/// Of a wait with a limit: whether what was waited for has ended.
inline bool check_ended(tutti_status status) {
  check_begun(status);
  return status != TUTTI_IN_PROGRESS;
}

/// A limit as calls take it. What is over already, such as a point in time less now, is a nanosecond.
inline std::uint64_t limit_ns(std::chrono::nanoseconds limit) {
  return static_cast<std::uint64_t>(std::max<std::chrono::nanoseconds::rep>(limit.count(), 1));
}

inline void note(tutti_status status, std::error_code& why) {
  why = status == TUTTI_SUCCESS ? std::error_code() : std::error_code(static_cast<int>(status), status_category());
}

/// What this thread's last call had whose sizes do not fit: elements, or blocks of a list and ranks.
struct Sizes {
  std::size_t one = 0;
  std::size_t other = 0;
};
inline thread_local Sizes unfit;

/// Throws what a form that fills a std::error_code came to.
inline void check(const std::error_code& why) {
  if (!why) return;
  if (why.category() != status_category()) {
    throw std::invalid_argument("tutti: the sizes of send and recv do not fit: " + std::to_string(unfit.one) + " and " +
                                std::to_string(unfit.other));
  }
  check(static_cast<tutti_status>(why.value()));
}

template <typename T>
struct TypeOf;
template <>
struct TypeOf<std::int8_t> {
  static constexpr tutti_type value = TUTTI_INT8;
};
template <>
struct TypeOf<std::uint8_t> {
  static constexpr tutti_type value = TUTTI_UINT8;
};
template <>
struct TypeOf<std::int16_t> {
  static constexpr tutti_type value = TUTTI_INT16;
};
template <>
struct TypeOf<std::uint16_t> {
  static constexpr tutti_type value = TUTTI_UINT16;
};
template <>
struct TypeOf<std::int32_t> {
  static constexpr tutti_type value = TUTTI_INT32;
};
template <>
struct TypeOf<std::uint32_t> {
  static constexpr tutti_type value = TUTTI_UINT32;
};
template <>
struct TypeOf<std::int64_t> {
  static constexpr tutti_type value = TUTTI_INT64;
};
template <>
struct TypeOf<std::uint64_t> {
  static constexpr tutti_type value = TUTTI_UINT64;
};
// The other type of 64 bits, where long has as many.
template <typename T>
  requires(std::is_same_v<T, long long> && !std::is_same_v<T, std::int64_t>)
struct TypeOf<T> {
  static constexpr tutti_type value = TUTTI_INT64;
};
template <typename T>
  requires(std::is_same_v<T, unsigned long long> && !std::is_same_v<T, std::uint64_t>)
struct TypeOf<T> {
  static constexpr tutti_type value = TUTTI_UINT64;
};
template <>
struct TypeOf<float> {
  static constexpr tutti_type value = TUTTI_FLOAT32;
};
template <>
struct TypeOf<double> {
  static constexpr tutti_type value = TUTTI_FLOAT64;
};
template <>
struct TypeOf<bool> {
  static_assert(sizeof(bool) == 1);
  static constexpr tutti_type value = TUTTI_BOOL;
};
template <>
struct TypeOf<std::complex<float>> {
  static constexpr tutti_type value = TUTTI_COMPLEX64;
};
template <>
struct TypeOf<std::complex<double>> {
  static constexpr tutti_type value = TUTTI_COMPLEX128;
};

/// Calls a function of the caller's once, and deletes it.
template <typename F, typename... Arguments>
void call_once(void* function, Arguments... arguments) {
  const std::unique_ptr<F> owned(static_cast<F*>(function));
  (*owned)(arguments...);
}

}  // namespace detail

/// Whether elements of a type of the caller's travel as bytes, which no built-in operator touches. Specialise it for
/// trivially copyable types: template <> inline constexpr bool tutti::is_opaque<Token> = true;
template <typename T>
inline constexpr bool is_opaque = false;

template <typename T>
  requires is_opaque<T>
struct detail::TypeOf<T> {
  static_assert(std::is_trivially_copyable_v<T>);
  static constexpr tutti_type value = static_cast<tutti_type>(TUTTI_OPAQUE + sizeof(T));
};

/// The tutti_type of a C++ element type; floats of 8 and 16 bits have none and go through the C face.
template <typename T>
inline constexpr tutti_type type_of = detail::TypeOf<T>::value;

/// What a verb sends: elements in one piece, of a type that has a tutti_type. Not owned; so no temporary that would be gone
/// with the call, where a queue or a group's end is still to send it.
template <typename R>
concept Sent =
    std::ranges::borrowed_range<R> && std::ranges::contiguous_range<const std::remove_reference_t<R>> &&
    std::ranges::sized_range<const std::remove_reference_t<R>> && requires(const std::remove_reference_t<R>& elements) {
      detail::TypeOf<std::ranges::range_value_t<R>>::value;
      static_cast<const void*>(std::ranges::data(elements));
    };

/// What a verb writes: the same, and not const.
template <typename R>
concept Received = Sent<R> && !std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<R>>>;

/// The blocks of a v-variant, one for each rank in rank order, of any lengths: a range of what a verb sends or writes.
template <typename B>
concept Blocks = std::ranges::forward_range<const std::remove_reference_t<B>> &&
                 Sent<std::ranges::range_reference_t<const std::remove_reference_t<B>>>;
/// The same, of what a verb writes.
template <typename B>
concept ReceivedBlocks = Blocks<B> && Received<std::ranges::range_reference_t<B>>;

/// Two of one element type.
template <typename S, typename R>
concept Alike = std::is_same_v<std::ranges::range_value_t<S>, std::ranges::range_value_t<R>>;
/// Blocks, and what is as one of them, of one element type.
template <typename B, typename R>
concept BlocksAlike = Alike<std::ranges::range_reference_t<B>, R>;

/// An operation under way. Destruction gives the handle back and lets the operation go on.
class Work {
 public:
  Work() = default;
  explicit Work(tutti_work* work) : work_(work) {}
  bool done() const { return tutti_work_test(work_.get()) != TUTTI_IN_PROGRESS; }
  /// Waits for the end; throws what the operation came to.
  void wait() const { detail::check(tutti_work_wait(work_.get(), 0)); }
  /// Waits at most so long. Whether it has ended; throws what it came to.
  bool wait_for(std::chrono::nanoseconds limit) const {
    return detail::check_ended(tutti_work_wait(work_.get(), detail::limit_ns(limit)));
  }
  tutti_work* get() const { return work_.get(); }
  /// Where a call puts its handle (tutti_call::work); the one that was here is given back.
  tutti_work** place() {
    work_ = {};
    return &work_.work;
  }
  /// What is known of the operation.
  tutti_work_details info() const {
    tutti_work_details info{};
    info.size = sizeof info;
    detail::check(tutti_work_info(get(), &info));
    return info;
  }
  /// Takes back a send or a receive that has met no match: see tutti_work_cancel.
  void cancel() const { detail::check(tutti_work_cancel(get())); }
  /// Calls fn(status) once, on a thread of the library's: see tutti_work_on_complete. No exception may leave it.
  template <typename F>
  void on_complete(F fn) const {
    listen(tutti_work_on_complete, std::move(fn));
  }
  /// Calls fn(status) once, on whichever thread ends the operation, which allows it little: see tutti_work_notify.
  template <typename F>
  void notify(F fn) const {
    listen(tutti_work_notify, std::move(fn));
  }

 private:
  template <typename Listen, typename F>
  void listen(Listen listen_c, F fn) const {
    auto owned = std::make_unique<F>(std::move(fn));
    const auto call = [](void* function, tutti_status status) noexcept { detail::call_once<F>(function, status); };
    detail::check(listen_c(get(), call, owned.get()));
    static_cast<void>(owned.release());
  }

  /// A handle whose address calls take.
  struct Handle {
    Handle() = default;
    explicit Handle(tutti_work* handle) : work(handle) {}
    Handle(Handle&& other) noexcept : work(std::exchange(other.work, nullptr)) {}
    Handle& operator=(Handle&& other) noexcept {
      tutti_work_release(std::exchange(work, std::exchange(other.work, nullptr)));
      return *this;
    }
    ~Handle() { tutti_work_release(work); }
    tutti_work* get() const { return work; }

    tutti_work* work = nullptr;
  };
  Handle work_;
};

/// Runs operations behind the caller's back, in order. Destruction completes what was enqueued. Every verb takes `stream()`
/// behind its other arguments; what it sends and receives is then the queue's until that has run.
class Queue {
 public:
  Queue() {
    tutti_queue* queue = nullptr;
    detail::check(tutti_queue_create(&queue));
    queue_.reset(queue);
  }
  /// Waits for all that was enqueued; throws the first error among it.
  void wait() const { detail::check(tutti_queue_wait(queue_.get(), 0)); }
  /// Waits at most so long. Whether all has ended; throws the first error among it.
  bool wait_for(std::chrono::nanoseconds limit) const {
    return detail::check_ended(tutti_queue_wait(queue_.get(), detail::limit_ns(limit)));
  }
  tutti_stream stream() const { return {TUTTI_STREAM_QUEUE, queue_.get()}; }
  /// Runs fn() on the queue's thread, behind the collectives enqueued before and ahead of those after: see
  /// tutti_queue_call.
  template <typename F>
  Work call(F fn) const {
    Work work;
    auto owned = std::make_unique<F>(std::move(fn));
    const auto call_c = [](void* function) { detail::call_once<F>(function); };
    detail::check(tutti_queue_call(queue_.get(), call_c, owned.get(), work.place()));
    static_cast<void>(owned.release());
    return work;
  }

 private:
  struct Destroy {
    void operator()(tutti_queue* queue) const { static_cast<void>(tutti_queue_destroy(queue)); }
  };
  std::unique_ptr<tutti_queue, Destroy> queue_;
};

/// How and where a call runs, as tutti_call and tutti_stream say it. A stream alone is one, too. What is not set is the
/// communicator's. Text and works are the caller's until the call returns.
class Options {
 public:
  Options() = default;
  template <typename Stream>
    requires std::is_convertible_v<const Stream&, tutti_stream>
  Options(const Stream& stream) : stream_(stream) {}  // NOLINT: a call's options may be its stream

  /// Receives the operation's handle. Such options are for one call.
  Options& work(Work& work) { return with(call_.work, work.place()); }
  Options& name(const char* name) { return with(call_.name, name); }
  Options& algorithm(const char* algorithm) { return with(call_.algorithm, algorithm); }
  Options& timeout(std::chrono::nanoseconds limit) { return with(call_.timeout_ns, detail::limit_ns(limit)); }
  /// Of a send, a receive or a group of them: what has met no match by then alone ends, see TUTTI_SOFT_DEADLINE.
  Options& soft_timeout(std::chrono::nanoseconds limit) {
    return timeout(limit).with(call_.flags, call_.flags | TUTTI_SOFT_DEADLINE);
  }
  /// A number of the caller's own, told by Work::info and in errors.
  Options& user_tag(std::uint64_t number) { return with(call_.user_tag, number); }
  /// Thread blocks of the call's launch on a device; 0: as the communicator's config says.
  Options& blocks(std::uint32_t least, std::uint32_t most) {
    return with(call_.min_blocks, least).with(call_.max_blocks, most);
  }
  Options& priority(std::int32_t priority) { return with(call_.priority, priority); }
  /// Folds floats of up to 32 bits in float32, and rounds once.
  Options& accumulate(tutti_type type = TUTTI_FLOAT32) { return with(call_.accumulate, type); }
  /// The result's bits depend on the operands and their order alone.
  Options& reproducible(bool on = true) { return with(call_.reproducible, on ? 1 : 0); }
  /// Operands of the whole fold of an all_reduce or reduce, of which each rank sends its share, one behind the other: see
  /// tutti_call::canonical. Out of place send is then as many times as large as recv as a rank has operands.
  Options& canonical(std::uint32_t operands) { return with(call_.canonical, operands); }
  /// Of Group::end: small collectives of the group go together.
  Options& fuse(bool on = true) { return with(call_.fuse, on ? 1 : 0); }

  tutti_stream stream() const { return stream_; }
  /// nullptr: nothing but perhaps the stream is set.
  const tutti_call* call() const { return is_set_ ? &call_ : nullptr; }

 private:
  template <typename Field, typename Value>
  Options& with(Field& field, Value value) {
    field = value;
    is_set_ = true;
    return *this;
  }

  tutti_call call_ = TUTTI_CALL_INIT;
  tutti_stream stream_ = {};
  bool is_set_ = false;
};

/// What is called between construction and `end`, on this thread, is issued together: see tutti_group_start. Where `end` is
/// not reached, as by an exception, nothing of it runs. Let communicators that are used in it live longer than it.
class Group {
 public:
  Group() { detail::check(tutti_group_start()); }
  ~Group() {
    if (!open_) return;
    const tutti_call refused{};  // without its size
    static_cast<void>(tutti_group_end(&refused));
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  /// Issues them; throws the first error.
  void end(const Options& options = {}) {
    open_ = false;
    detail::check(tutti_group_end(options.call()));
  }
  /// Ends without running anything, and tells what it would have taken: see tutti_group_estimate.
  std::chrono::nanoseconds estimate() {
    open_ = false;
    std::uint64_t ns = 0;
    detail::check(tutti_group_estimate(&ns));
    return std::chrono::nanoseconds(ns);
  }

 private:
  bool open_ = true;
};

/// All settings of the library, as the environment has them: see tutti_setting_get.
inline std::vector<tutti_setting> settings() {
  std::vector<tutti_setting> all;
  tutti_setting setting{};
  setting.size = sizeof setting;
  while (tutti_setting_get(static_cast<int>(all.size()), &setting) == TUTTI_SUCCESS) all.push_back(setting);
  return all;
}

class Communicator;

/// An operator of the caller's, which Communicator makes. Let it live until the calls that it was passed to have ended, and
/// its communicator longer. Passed in the place of a tutti_op.
class Operator {
 public:
  Operator() = default;
  operator tutti_op() const { return made_ != nullptr ? made_->op : TUTTI_OP_LIMIT; }  // NOLINT: what it is for

 private:
  friend class Communicator;
  struct Made {
    tutti_op op = TUTTI_OP_LIMIT;
    tutti_comm* comm = nullptr;
    std::shared_ptr<void> fold;  ///< the caller's function

    ~Made() {
      if (comm != nullptr) static_cast<void>(tutti_op_destroy(op, comm));
    }
  };
  std::unique_ptr<Made> made_;
};

/// One rank's membership of a group. Every verb has a form that throws Failure, and one that fills a std::error_code,
/// behind the arguments that it must have. Without `options` it blocks. On a stream buffers belong to the operation until
/// it has completed. send and recv may be the same memory where the C face's verb says "in place". Sizes
/// that do not fit, told by this rank's own buffers, are std::invalid_argument (std::errc::invalid_argument), and nothing
/// is sent.
class Communicator {
 public:
  /// Of no group: get() == nullptr.
  Communicator() : Communicator(static_cast<tutti_comm*>(nullptr)) {}
  /// Takes over a handle.
  explicit Communicator(tutti_comm* comm) : comm_(new tutti_comm*(comm)) {}
  /// Joins at an address, see tutti_comm_create_address; -1: from the launcher's environment.
  explicit Communicator(const char* address, int ranks = -1, int rank = -1, const tutti_config* config = nullptr)
      : Communicator() {
    detail::check_begun(tutti_comm_create_address(comm_.get(), address, ranks, rank, config));
  }
  Communicator(const tutti_unique_id& id, int ranks, int rank, const tutti_config* config = nullptr) : Communicator() {
    detail::check_begun(tutti_comm_create(comm_.get(), ranks, &id, rank, config));
  }

  int rank() const {
    int rank = -1;
    detail::check(tutti_comm_rank(get(), &rank));
    return rank;
  }
  int size() const {
    int ranks = 0;
    detail::check(tutti_comm_size(get(), &ranks));
    return ranks;
  }
  /// The handle, which stays this object's. NULL between a creation or a split in a group and the group's end, which makes
  /// it: until then this object must live.
  tutti_comm* get() const { return comm_ != nullptr ? *comm_ : nullptr; }
  /// The group of `color`; an empty Communicator (get() == nullptr) for a negative one.
  Communicator split(int color, int key, const tutti_config* config = nullptr) const {
    Communicator out;
    detail::check_begun(tutti_comm_split(get(), color, key, out.comm_.get(), config));
    return out;
  }
  /// The communicator of these ranks, which alone call; see tutti_comm_create_members.
  Communicator create_members(std::span<const int> ranks, std::uint64_t tag = 0,
                              const tutti_config* config = nullptr) const {
    Communicator out;
    detail::check_begun(
        tutti_comm_create_members(get(), ranks.data(), static_cast<int>(ranks.size()), tag, out.comm_.get(), config));
    return out;
  }
  /// What it takes of memory at this moment.
  tutti_memory_use memory() const {
    tutti_memory_use use{};
    use.size = sizeof use;
    detail::check(tutti_comm_memory(get(), &use));
    return use;
  }
  void set_name(const char* name) const { detail::check(tutti_comm_set_name(get(), name)); }
  /// How far a creation or a finalize that does not block has come, or that it has failed.
  tutti_comm_state_kind state() const {
    tutti_comm_state_kind state = TUTTI_COMM_CREATING;
    detail::check(tutti_comm_state(get(), &state));
    return state;
  }
  /// Completes everything, then takes leave: see tutti_comm_finalize. With tutti_config.non_blocking = 2 it goes on behind
  /// the caller's back, as state() tells.
  void finalize() const { detail::check_begun(tutti_comm_finalize(get())); }
  /// Of operations without a limit of their own, from now on; 0: the setting's.
  void set_timeout(std::chrono::nanoseconds limit) const {
    detail::check(tutti_comm_set_timeout(get(), limit.count() == 0 ? 0 : detail::limit_ns(limit)));
  }
  /// The number of the next collective.
  std::uint64_t sequence() const {
    std::uint64_t sequence = 0;
    detail::check(tutti_comm_sequence(get(), &sequence));
    return sequence;
  }
  void abort() const { static_cast<void>(tutti_comm_abort(get())); }

  /// An operator by fold(lower, upper), of which `lower` is the lower ranks' element. It has to be associative, and
  /// commutative unless the caller says otherwise. T is a type that verbs take: see tutti_op_create_user for what `fold`
  /// may do.
  template <typename T, typename F>
  Operator make_operator(F fold, bool commutative = true) const {
    const auto held = std::make_shared<F>(std::move(fold));
    const auto fold_c = [](void* ctx, const void* in, void* inout, std::uint64_t count) noexcept {
      const T* const lower = static_cast<const T*>(in);
      T* const upper = static_cast<T*>(inout);
      for (std::uint64_t i = 0; i < count; ++i) upper[i] = (*static_cast<F*>(ctx))(lower[i], std::as_const(upper[i]));
    };
    Operator made = unmade();
    detail::check(tutti_op_create_user(&made.made_->op, fold_c, held.get(), commutative ? 1 : 0, sizeof(T), get()));
    made.made_->comm = get();
    made.made_->fold = held;
    return made;
  }
  /// A sum whose operands are multiplied first, by each rank's own scalar: see tutti_op_create_pre_mul_sum.
  template <typename T>
  Operator make_pre_mul_sum(T scalar) const {
    Operator made = unmade();
    detail::check(tutti_op_create_pre_mul_sum(&made.made_->op, &scalar, type_of<T>, TUTTI_MEMORY_HOST, get()));
    made.made_->comm = get();
    return made;
  }
  /// The same with a scalar in CUDA memory, which stays the caller's. Each call reads it as it runs.
  template <typename T>
  Operator make_pre_mul_sum_at(const T* scalar) const {
    Operator made = unmade();
    detail::check(tutti_op_create_pre_mul_sum(&made.made_->op, scalar, type_of<T>, TUTTI_MEMORY_CUDA, get()));
    made.made_->comm = get();
    return made;
  }

  /// Folds in place. With Options::canonical data holds this rank's operands, of which the first becomes the result.
  template <Received R>
  void all_reduce(R&& data, tutti_op op = TUTTI_SUM, const Options& options = {}) const {
    std::error_code why;
    all_reduce(data, why, op, options);
    detail::check(why);
  }
  template <Received R>
  void all_reduce(R&& data, std::error_code& why, tutti_op op = TUTTI_SUM, const Options& options = {}) const {
    const std::size_t each = operands(options, why);
    if (why || !fit(count(data), count(data) / each * each, why)) return;
    detail::note(tutti_all_reduce(first(data), first(data), count(data) / each, type_of<Element<R>>, op, get(),
                                  options.stream(), options.call()),
                 why);
  }
  /// Out of place; equal sizes, unless a rank has several operands.
  template <Sent S, Received R>
    requires Alike<S, R>
  void all_reduce(S&& send, R&& recv, tutti_op op = TUTTI_SUM, const Options& options = {}) const {
    std::error_code why;
    all_reduce(send, recv, why, op, options);
    detail::check(why);
  }
  template <Sent S, Received R>
    requires Alike<S, R>
  void all_reduce(S&& send, R&& recv, std::error_code& why, tutti_op op = TUTTI_SUM, const Options& options = {}) const {
    const std::size_t each = operands(options, why);
    if (why || !fit(count(send), each * count(recv), why)) return;
    detail::note(tutti_all_reduce(first(send), first(recv), count(recv), type_of<Element<R>>, op, get(), options.stream(),
                                  options.call()),
                 why);
  }
  /// As all_reduce in place, behind the caller's back.
  template <Received R>
  Work all_reduce(R&& data, const Queue& queue, tutti_op op = TUTTI_SUM) const {
    Work work;
    all_reduce(data, op, Options(queue.stream()).work(work));
    return work;
  }
  /// recv is as large as send on the root, and ignored elsewhere, where it may be empty.
  template <Sent S, Received R>
    requires Alike<S, R>
  void reduce(S&& send, R&& recv, int root, tutti_op op = TUTTI_SUM, const Options& options = {}) const {
    std::error_code why;
    reduce(send, recv, root, why, op, options);
    detail::check(why);
  }
  template <Sent S, Received R>
    requires Alike<S, R>
  void reduce(S&& send, R&& recv, int root, std::error_code& why, tutti_op op = TUTTI_SUM,
              const Options& options = {}) const {
    const std::size_t each = operands(options, why);
    if (why || !fit(count(send), count(send) / each * each, why) || !at_root(root, each * count(recv), count(send), why))
      return;
    detail::note(tutti_reduce(first(send), first(recv), count(send) / each, type_of<Element<R>>, op, root, get(),
                              options.stream(), options.call()),
                 why);
  }
  /// From the root's data into all others'.
  template <Received R>
  void broadcast(R&& data, int root, const Options& options = {}) const {
    std::error_code why;
    broadcast(data, root, why, options);
    detail::check(why);
  }
  template <Received R>
  void broadcast(R&& data, int root, std::error_code& why, const Options& options = {}) const {
    detail::note(tutti_broadcast(first(data), first(data), count(data), type_of<Element<R>>, root, get(), options.stream(),
                                 options.call()),
                 why);
  }
  /// recv is size() times as large as send.
  template <Sent S, Received R>
    requires Alike<S, R>
  void all_gather(S&& send, R&& recv, const Options& options = {}) const {
    std::error_code why;
    all_gather(send, recv, why, options);
    detail::check(why);
  }
  template <Sent S, Received R>
    requires Alike<S, R>
  void all_gather(S&& send, R&& recv, std::error_code& why, const Options& options = {}) const {
    if (!fit_blocks(count(recv), count(send), why)) return;
    detail::note(tutti_all_gather(first(send), first(recv), count(send), type_of<Element<R>>, get(), options.stream(),
                                  options.call()),
                 why);
  }
  /// send is size() times as large as recv.
  template <Sent S, Received R>
    requires Alike<S, R>
  void reduce_scatter(S&& send, R&& recv, tutti_op op = TUTTI_SUM, const Options& options = {}) const {
    std::error_code why;
    reduce_scatter(send, recv, why, op, options);
    detail::check(why);
  }
  template <Sent S, Received R>
    requires Alike<S, R>
  void reduce_scatter(S&& send, R&& recv, std::error_code& why, tutti_op op = TUTTI_SUM,
                      const Options& options = {}) const {
    if (!fit_blocks(count(send), count(recv), why)) return;
    detail::note(tutti_reduce_scatter(first(send), first(recv), count(recv), type_of<Element<R>>, op, get(),
                                      options.stream(), options.call()),
                 why);
  }
  /// send and recv hold size() blocks each, equally large.
  template <Sent S, Received R>
    requires Alike<S, R>
  void all_to_all(S&& send, R&& recv, const Options& options = {}) const {
    std::error_code why;
    all_to_all(send, recv, why, options);
    detail::check(why);
  }
  template <Sent S, Received R>
    requires Alike<S, R>
  void all_to_all(S&& send, R&& recv, std::error_code& why, const Options& options = {}) const {
    const std::size_t block = count(send) / ranks(why);
    if (!fit(count(send), count(recv), why) || !fit_blocks(count(send), block, why)) return;
    detail::note(
        tutti_all_to_all(first(send), first(recv), block, type_of<Element<R>>, get(), options.stream(), options.call()),
        why);
  }
  /// recv is size() times as large as send on the root, and ignored elsewhere, where it may be empty.
  template <Sent S, Received R>
    requires Alike<S, R>
  void gather(S&& send, R&& recv, int root, const Options& options = {}) const {
    std::error_code why;
    gather(send, recv, root, why, options);
    detail::check(why);
  }
  template <Sent S, Received R>
    requires Alike<S, R>
  void gather(S&& send, R&& recv, int root, std::error_code& why, const Options& options = {}) const {
    if (!at_root(root, count(recv), count(send) * ranks(why), why)) return;
    detail::note(tutti_gather(first(send), first(recv), count(send), type_of<Element<R>>, root, get(), options.stream(),
                              options.call()),
                 why);
  }
  /// send is size() times as large as recv on the root, and ignored elsewhere, where it may be empty.
  template <Sent S, Received R>
    requires Alike<S, R>
  void scatter(S&& send, R&& recv, int root, const Options& options = {}) const {
    std::error_code why;
    scatter(send, recv, root, why, options);
    detail::check(why);
  }
  template <Sent S, Received R>
    requires Alike<S, R>
  void scatter(S&& send, R&& recv, int root, std::error_code& why, const Options& options = {}) const {
    if (!at_root(root, count(send), count(recv) * ranks(why), why)) return;
    detail::note(tutti_scatter(first(send), first(recv), count(recv), type_of<Element<R>>, root, get(), options.stream(),
                               options.call()),
                 why);
  }

  // The v-variants, whose blocks are size() ranges of any lengths. They need memory for a list, and may throw
  // std::bad_alloc.

  /// recv_blocks[r] is as long as rank r's send, the same on all ranks.
  template <Sent S, ReceivedBlocks B>
    requires BlocksAlike<B, S>
  void all_gather_v(S&& send, B&& recv_blocks, std::error_code& why, const Options& options = {}) const {
    const std::vector<tutti_block> blocks = list_of(recv_blocks);
    if (!fit(blocks.size(), ranks(why), why)) return;
    detail::note(tutti_all_gather_v(first(send), count(send), blocks.data(), type_of<Element<S>>, get(), options.stream(),
                                    options.call()),
                 why);
  }
  template <Sent S, ReceivedBlocks B>
    requires BlocksAlike<B, S>
  void all_gather_v(S&& send, B&& recv_blocks, const Options& options = {}) const {
    std::error_code why;
    all_gather_v(send, recv_blocks, why, options);
    detail::check(why);
  }
  /// send_blocks[r] is as long as rank r's recv, the same on all ranks.
  template <Blocks B, Received R>
    requires BlocksAlike<B, R>
  void reduce_scatter_v(const B& send_blocks, R&& recv, std::error_code& why, tutti_op op = TUTTI_SUM,
                        const Options& options = {}) const {
    const std::vector<tutti_block> blocks = list_of(send_blocks);
    if (!fit(blocks.size(), ranks(why), why)) return;
    detail::note(tutti_reduce_scatter_v(blocks.data(), first(recv), count(recv), type_of<Element<R>>, op, get(),
                                        options.stream(), options.call()),
                 why);
  }
  template <Blocks B, Received R>
    requires BlocksAlike<B, R>
  void reduce_scatter_v(const B& send_blocks, R&& recv, tutti_op op = TUTTI_SUM, const Options& options = {}) const {
    std::error_code why;
    reduce_scatter_v(send_blocks, recv, why, op, options);
    detail::check(why);
  }
  /// send_blocks[j] is as long as rank j's recv_blocks[i], i being this rank.
  template <Blocks S, ReceivedBlocks R>
    requires BlocksAlike<S, std::ranges::range_reference_t<R>>
  void all_to_all_v(const S& send_blocks, R&& recv_blocks, std::error_code& why, const Options& options = {}) const {
    const std::vector<tutti_block> from = list_of(send_blocks), to = list_of(recv_blocks);
    if (!fit(from.size(), ranks(why), why) || !fit(to.size(), ranks(why), why)) return;
    detail::note(tutti_all_to_all_v(from.data(), to.data(), type_of<Element<std::ranges::range_reference_t<R>>>, get(),
                                    options.stream(), options.call()),
                 why);
  }
  template <Blocks S, ReceivedBlocks R>
    requires BlocksAlike<S, std::ranges::range_reference_t<R>>
  void all_to_all_v(const S& send_blocks, R&& recv_blocks, const Options& options = {}) const {
    std::error_code why;
    all_to_all_v(send_blocks, recv_blocks, why, options);
    detail::check(why);
  }
  /// recv_blocks[r] is as long as rank r's send on the root; recv_blocks is ignored elsewhere, where it may be empty.
  template <Sent S, ReceivedBlocks B>
    requires BlocksAlike<B, S>
  void gather_v(S&& send, B&& recv_blocks, int root, std::error_code& why, const Options& options = {}) const {
    const std::vector<tutti_block> blocks = list_of(recv_blocks);
    if (!at_root(root, blocks.size(), ranks(why), why)) return;
    detail::note(tutti_gather_v(first(send), count(send), blocks.data(), type_of<Element<S>>, root, get(), options.stream(),
                                options.call()),
                 why);
  }
  template <Sent S, ReceivedBlocks B>
    requires BlocksAlike<B, S>
  void gather_v(S&& send, B&& recv_blocks, int root, const Options& options = {}) const {
    std::error_code why;
    gather_v(send, recv_blocks, root, why, options);
    detail::check(why);
  }
  /// send_blocks[r] is as long as rank r's recv on the root; send_blocks is ignored elsewhere, where it may be empty.
  template <Blocks B, Received R>
    requires BlocksAlike<B, R>
  void scatter_v(const B& send_blocks, R&& recv, int root, std::error_code& why, const Options& options = {}) const {
    const std::vector<tutti_block> blocks = list_of(send_blocks);
    if (!at_root(root, blocks.size(), ranks(why), why)) return;
    detail::note(tutti_scatter_v(blocks.data(), first(recv), count(recv), type_of<Element<R>>, root, get(),
                                 options.stream(), options.call()),
                 why);
  }
  template <Blocks B, Received R>
    requires BlocksAlike<B, R>
  void scatter_v(const B& send_blocks, R&& recv, int root, const Options& options = {}) const {
    std::error_code why;
    scatter_v(send_blocks, recv, root, why, options);
    detail::check(why);
  }

  /// Buffers in pieces: `send_blocks`, one behind the other, are folded into `recv_blocks`. Any number of any lengths,
  /// which have as many elements together on all ranks; with Options::canonical each is an operand. See tutti_all_reduce_v.
  template <Blocks S, ReceivedBlocks R>
    requires BlocksAlike<S, std::ranges::range_reference_t<R>>
  void all_reduce_v(const S& send_blocks, R&& recv_blocks, std::error_code& why, tutti_op op = TUTTI_SUM,
                    const Options& options = {}) const {
    const std::vector<tutti_block> from = list_of(send_blocks), to = list_of(recv_blocks);
    detail::note(tutti_all_reduce_v(from.data(), from.size(), to.data(), to.size(),
                                    type_of<Element<std::ranges::range_reference_t<R>>>, op, get(), options.stream(),
                                    options.call()),
                 why);
  }
  template <Blocks S, ReceivedBlocks R>
    requires BlocksAlike<S, std::ranges::range_reference_t<R>>
  void all_reduce_v(const S& send_blocks, R&& recv_blocks, tutti_op op = TUTTI_SUM, const Options& options = {}) const {
    std::error_code why;
    all_reduce_v(send_blocks, recv_blocks, why, op, options);
    detail::check(why);
  }
  /// In place: as a list of gradients.
  template <ReceivedBlocks R>
  void all_reduce_v(R&& blocks, std::error_code& why, tutti_op op = TUTTI_SUM, const Options& options = {}) const {
    const std::vector<tutti_block> list = list_of(blocks);
    detail::note(
        tutti_all_reduce_v(nullptr, 0, list.data(), list.size(), type_of<Element<std::ranges::range_reference_t<R>>>, op,
                           get(), options.stream(), options.call()),
        why);
  }
  template <ReceivedBlocks R>
  void all_reduce_v(R&& blocks, tutti_op op = TUTTI_SUM, const Options& options = {}) const {
    std::error_code why;
    all_reduce_v(blocks, why, op, options);
    detail::check(why);
  }

  void barrier(const Options& options = {}) const {
    std::error_code why;
    barrier(why, options);
    detail::check(why);
  }
  void barrier(std::error_code& why, const Options& options = {}) const {
    detail::note(tutti_barrier(get(), options.stream(), options.call()), why);
  }

  template <Sent S>
  void send(S&& data, int peer, std::uint64_t tag = 0, const Options& options = {}) const {
    std::error_code why;
    send(data, peer, why, tag, options);
    detail::check(why);
  }
  template <Sent S>
  void send(S&& data, int peer, std::error_code& why, std::uint64_t tag = 0, const Options& options = {}) const {
    const tutti_call call = tagged(tag, options);
    detail::note(tutti_send(first(data), count(data), type_of<Element<S>>, peer, get(), options.stream(), &call), why);
  }
  /// Receives at most as many elements as data holds.
  template <Received R>
  void recv(R&& data, int peer, std::uint64_t tag = 0, const Options& options = {}) const {
    std::error_code why;
    recv(data, peer, why, tag, options);
    detail::check(why);
  }
  template <Received R>
  void recv(R&& data, int peer, std::error_code& why, std::uint64_t tag = 0, const Options& options = {}) const {
    const tutti_call call = tagged(tag, options);
    detail::note(tutti_recv(first(data), count(data), type_of<Element<R>>, peer, get(), options.stream(), &call), why);
  }

 private:
  static Operator unmade() {
    Operator made;
    made.made_ = std::make_unique<Operator::Made>();
    return made;
  }
  template <typename R>
  using Element = std::ranges::range_value_t<R>;
  template <typename R>
  static auto* first(R&& elements) {
    return std::ranges::data(elements);
  }
  template <typename R>
  static std::size_t count(R&& elements) {
    return static_cast<std::size_t>(std::ranges::size(elements));
  }
  static tutti_call tagged(std::uint64_t tag, const Options& options) {
    tutti_call call = TUTTI_CALL_INIT;
    if (options.call() != nullptr) call = *options.call();
    call.tag = tag;
    return call;
  }
  /// As the C face takes them, whose blocks do not say that those of a sender are only read.
  template <Blocks B>
  static std::vector<tutti_block> list_of(const B& blocks) {
    std::vector<tutti_block> list;
    for (const auto& block : blocks) {
      const void* const data = std::ranges::data(block);
      list.push_back({const_cast<void*>(data), static_cast<std::uint64_t>(std::ranges::size(block))});
    }
    return list;
  }
  /// At least 1, so that it can be divided by.
  std::size_t ranks(std::error_code& why) const {
    int ranks = 1;
    detail::note(tutti_comm_size(get(), &ranks), why);
    return static_cast<std::size_t>(ranks);
  }
  /// This rank's, of a fold.
  std::size_t operands(const Options& options, std::error_code& why) const {
    const std::size_t all = options.call() != nullptr ? options.call()->canonical : 0;
    if (all != 0) return std::max<std::size_t>(1, all / ranks(why));
    why.clear();
    return 1;
  }
  static bool fit(std::size_t a, std::size_t b, std::error_code& why) {
    why = a == b ? std::error_code() : std::make_error_code(std::errc::invalid_argument);
    if (why) detail::unfit = {a, b};
    return !why;
  }
  bool fit_blocks(std::size_t whole, std::size_t block, std::error_code& why) const {
    const std::size_t all = block * ranks(why);
    return !why && fit(whole, all, why);
  }
  /// Where this rank is the root, sizes have to fit.
  bool at_root(int root, std::size_t a, std::size_t b, std::error_code& why) const {
    int rank = -1;
    detail::note(tutti_comm_rank(get(), &rank), why);
    return !why && (rank != root || fit(a, b, why));
  }
  struct Destroy {
    void operator()(tutti_comm** comm) const {
      // Refused while this thread's open group uses it: then nobody can destroy it any more, and its peers must not wait.
      if (tutti_comm_destroy(*comm) != TUTTI_SUCCESS) static_cast<void>(tutti_comm_abort(*comm));
      delete comm;
    }
  };
  /// At a place of its own, where a group's end writes it although this object may have moved.
  std::unique_ptr<tutti_comm*, Destroy> comm_;
};

/// Host memory that operations will use again and again, registered as long as this lives: see tutti_memory_register. Let
/// it end before the memory does.
class Registration {
 public:
  /// memory: as verbs take it.
  template <typename R>
  Registration(const Communicator& comm, R&& memory) {
    const auto bytes = std::as_writable_bytes(std::span(memory));
    tutti_registration* made = nullptr;
    detail::check(tutti_memory_register(comm.get(), bytes.data(), bytes.size(), &made));
    registration_.reset(made);
  }

 private:
  struct Unregister {
    void operator()(tutti_registration* registration) const { static_cast<void>(tutti_memory_unregister(registration)); }
  };
  std::unique_ptr<tutti_registration, Unregister> registration_;
};

}  // namespace tutti

#endif  // TUTTI_TUTTI_HPP_
