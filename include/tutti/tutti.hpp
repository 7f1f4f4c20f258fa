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
// Header-only: it uses the C face alone. Objects are movable, not copyable. Thread safety is tutti.h's. What only a call's
// options can say (a name, a deadline, an algorithm) goes through the C face, with get().
#ifndef TUTTI_TUTTI_HPP_
#define TUTTI_TUTTI_HPP_

#if __cplusplus < 202002L
#error "tutti/tutti.hpp takes C++20: compile with -std=c++20, or use tutti/tutti.h"
#endif

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

inline void note(tutti_status status, std::error_code& why) {
  why = status == TUTTI_SUCCESS ? std::error_code() : std::error_code(static_cast<int>(status), status_category());
}

/// Throws what a form that fills a std::error_code came to.
inline void check(const std::error_code& why) {
  if (!why) return;
  if (why.category() != status_category()) throw std::invalid_argument("tutti: the sizes of send and recv do not fit");
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

}  // namespace detail

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
  tutti_work* get() const { return work_.get(); }

 private:
  struct Release {
    void operator()(tutti_work* work) const { tutti_work_release(work); }
  };
  std::unique_ptr<tutti_work, Release> work_;
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
  tutti_stream stream() const { return {TUTTI_STREAM_QUEUE, queue_.get()}; }

 private:
  struct Destroy {
    void operator()(tutti_queue* queue) const { static_cast<void>(tutti_queue_destroy(queue)); }
  };
  std::unique_ptr<tutti_queue, Destroy> queue_;
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
  void end() {
    open_ = false;
    detail::check(tutti_group_end(nullptr));
  }

 private:
  bool open_ = true;
};

/// One rank's membership of a group. Every verb has a form that throws Failure, and one that fills a std::error_code,
/// behind the arguments that it must have. `stream` defaults to blocking; buffers then belong to the operation until it has
/// completed. send and recv may be the same memory where the C face's verb says "in place". Sizes that do not fit, told by
/// this rank's own buffers, are std::invalid_argument (std::errc::invalid_argument), and nothing is sent.
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
  Communicator split(int color, int key) const {
    Communicator out;
    detail::check_begun(tutti_comm_split(get(), color, key, out.comm_.get(), nullptr));
    return out;
  }
  /// The communicator of these ranks, which alone call; see tutti_comm_create_members.
  Communicator create_members(std::span<const int> ranks, std::uint64_t tag = 0) const {
    Communicator out;
    detail::check_begun(
        tutti_comm_create_members(get(), ranks.data(), static_cast<int>(ranks.size()), tag, out.comm_.get(), nullptr));
    return out;
  }
  void set_name(const char* name) const { detail::check(tutti_comm_set_name(get(), name)); }
  void abort() const { static_cast<void>(tutti_comm_abort(get())); }

  /// Folds in place.
  template <Received R>
  void all_reduce(R&& data, tutti_op op = TUTTI_SUM, tutti_stream stream = {}) const {
    std::error_code why;
    all_reduce(data, why, op, stream);
    detail::check(why);
  }
  template <Received R>
  void all_reduce(R&& data, std::error_code& why, tutti_op op = TUTTI_SUM, tutti_stream stream = {}) const {
    detail::note(tutti_all_reduce(first(data), first(data), count(data), type_of<Element<R>>, op, get(), stream, nullptr),
                 why);
  }
  /// Out of place; equal sizes.
  template <Sent S, Received R>
    requires Alike<S, R>
  void all_reduce(S&& send, R&& recv, tutti_op op = TUTTI_SUM, tutti_stream stream = {}) const {
    std::error_code why;
    all_reduce(send, recv, why, op, stream);
    detail::check(why);
  }
  template <Sent S, Received R>
    requires Alike<S, R>
  void all_reduce(S&& send, R&& recv, std::error_code& why, tutti_op op = TUTTI_SUM, tutti_stream stream = {}) const {
    if (!fit(count(send), count(recv), why)) return;
    detail::note(tutti_all_reduce(first(send), first(recv), count(send), type_of<Element<R>>, op, get(), stream, nullptr),
                 why);
  }
  /// As all_reduce in place, behind the caller's back.
  template <Received R>
  Work all_reduce(R&& data, const Queue& queue, tutti_op op = TUTTI_SUM) const {
    tutti_work* work = nullptr;
    tutti_call call = TUTTI_CALL_INIT;
    call.work = &work;
    detail::check(
        tutti_all_reduce(first(data), first(data), count(data), type_of<Element<R>>, op, get(), queue.stream(), &call));
    return Work(work);
  }
  /// recv is as large as send on the root, and ignored elsewhere, where it may be empty.
  template <Sent S, Received R>
    requires Alike<S, R>
  void reduce(S&& send, R&& recv, int root, tutti_op op = TUTTI_SUM, tutti_stream stream = {}) const {
    std::error_code why;
    reduce(send, recv, root, why, op, stream);
    detail::check(why);
  }
  template <Sent S, Received R>
    requires Alike<S, R>
  void reduce(S&& send, R&& recv, int root, std::error_code& why, tutti_op op = TUTTI_SUM, tutti_stream stream = {}) const {
    if (!at_root(root, count(recv), count(send), why)) return;
    detail::note(tutti_reduce(first(send), first(recv), count(send), type_of<Element<R>>, op, root, get(), stream, nullptr),
                 why);
  }
  /// From the root's data into all others'.
  template <Received R>
  void broadcast(R&& data, int root, tutti_stream stream = {}) const {
    std::error_code why;
    broadcast(data, root, why, stream);
    detail::check(why);
  }
  template <Received R>
  void broadcast(R&& data, int root, std::error_code& why, tutti_stream stream = {}) const {
    detail::note(tutti_broadcast(first(data), first(data), count(data), type_of<Element<R>>, root, get(), stream, nullptr),
                 why);
  }
  /// recv is size() times as large as send.
  template <Sent S, Received R>
    requires Alike<S, R>
  void all_gather(S&& send, R&& recv, tutti_stream stream = {}) const {
    std::error_code why;
    all_gather(send, recv, why, stream);
    detail::check(why);
  }
  template <Sent S, Received R>
    requires Alike<S, R>
  void all_gather(S&& send, R&& recv, std::error_code& why, tutti_stream stream = {}) const {
    if (!fit_blocks(count(recv), count(send), why)) return;
    detail::note(tutti_all_gather(first(send), first(recv), count(send), type_of<Element<R>>, get(), stream, nullptr), why);
  }
  /// send is size() times as large as recv.
  template <Sent S, Received R>
    requires Alike<S, R>
  void reduce_scatter(S&& send, R&& recv, tutti_op op = TUTTI_SUM, tutti_stream stream = {}) const {
    std::error_code why;
    reduce_scatter(send, recv, why, op, stream);
    detail::check(why);
  }
  template <Sent S, Received R>
    requires Alike<S, R>
  void reduce_scatter(S&& send, R&& recv, std::error_code& why, tutti_op op = TUTTI_SUM, tutti_stream stream = {}) const {
    if (!fit_blocks(count(send), count(recv), why)) return;
    detail::note(
        tutti_reduce_scatter(first(send), first(recv), count(recv), type_of<Element<R>>, op, get(), stream, nullptr), why);
  }
  /// send and recv hold size() blocks each, equally large.
  template <Sent S, Received R>
    requires Alike<S, R>
  void all_to_all(S&& send, R&& recv, tutti_stream stream = {}) const {
    std::error_code why;
    all_to_all(send, recv, why, stream);
    detail::check(why);
  }
  template <Sent S, Received R>
    requires Alike<S, R>
  void all_to_all(S&& send, R&& recv, std::error_code& why, tutti_stream stream = {}) const {
    const std::size_t block = count(send) / ranks(why);
    if (!fit(count(send), count(recv), why) || !fit_blocks(count(send), block, why)) return;
    detail::note(tutti_all_to_all(first(send), first(recv), block, type_of<Element<R>>, get(), stream, nullptr), why);
  }
  /// recv is size() times as large as send on the root, and ignored elsewhere, where it may be empty.
  template <Sent S, Received R>
    requires Alike<S, R>
  void gather(S&& send, R&& recv, int root, tutti_stream stream = {}) const {
    std::error_code why;
    gather(send, recv, root, why, stream);
    detail::check(why);
  }
  template <Sent S, Received R>
    requires Alike<S, R>
  void gather(S&& send, R&& recv, int root, std::error_code& why, tutti_stream stream = {}) const {
    if (!at_root(root, count(recv), count(send) * ranks(why), why)) return;
    detail::note(tutti_gather(first(send), first(recv), count(send), type_of<Element<R>>, root, get(), stream, nullptr),
                 why);
  }
  /// send is size() times as large as recv on the root, and ignored elsewhere, where it may be empty.
  template <Sent S, Received R>
    requires Alike<S, R>
  void scatter(S&& send, R&& recv, int root, tutti_stream stream = {}) const {
    std::error_code why;
    scatter(send, recv, root, why, stream);
    detail::check(why);
  }
  template <Sent S, Received R>
    requires Alike<S, R>
  void scatter(S&& send, R&& recv, int root, std::error_code& why, tutti_stream stream = {}) const {
    if (!at_root(root, count(send), count(recv) * ranks(why), why)) return;
    detail::note(tutti_scatter(first(send), first(recv), count(recv), type_of<Element<R>>, root, get(), stream, nullptr),
                 why);
  }

  // The v-variants, whose blocks are size() ranges of any lengths. They need memory for a list, and may throw
  // std::bad_alloc.

  /// recv_blocks[r] is as long as rank r's send, the same on all ranks.
  template <Sent S, ReceivedBlocks B>
    requires BlocksAlike<B, S>
  void all_gather_v(S&& send, B&& recv_blocks, std::error_code& why, tutti_stream stream = {}) const {
    const std::vector<tutti_block> blocks = list_of(recv_blocks);
    if (!fit(blocks.size(), ranks(why), why)) return;
    detail::note(tutti_all_gather_v(first(send), count(send), blocks.data(), type_of<Element<S>>, get(), stream, nullptr),
                 why);
  }
  template <Sent S, ReceivedBlocks B>
    requires BlocksAlike<B, S>
  void all_gather_v(S&& send, B&& recv_blocks, tutti_stream stream = {}) const {
    std::error_code why;
    all_gather_v(send, recv_blocks, why, stream);
    detail::check(why);
  }
  /// send_blocks[r] is as long as rank r's recv, the same on all ranks.
  template <Blocks B, Received R>
    requires BlocksAlike<B, R>
  void reduce_scatter_v(const B& send_blocks, R&& recv, std::error_code& why, tutti_op op = TUTTI_SUM,
                        tutti_stream stream = {}) const {
    const std::vector<tutti_block> blocks = list_of(send_blocks);
    if (!fit(blocks.size(), ranks(why), why)) return;
    detail::note(
        tutti_reduce_scatter_v(blocks.data(), first(recv), count(recv), type_of<Element<R>>, op, get(), stream, nullptr),
        why);
  }
  template <Blocks B, Received R>
    requires BlocksAlike<B, R>
  void reduce_scatter_v(const B& send_blocks, R&& recv, tutti_op op = TUTTI_SUM, tutti_stream stream = {}) const {
    std::error_code why;
    reduce_scatter_v(send_blocks, recv, why, op, stream);
    detail::check(why);
  }
  /// send_blocks[j] is as long as rank j's recv_blocks[i], i being this rank.
  template <Blocks S, ReceivedBlocks R>
    requires BlocksAlike<S, std::ranges::range_reference_t<R>>
  void all_to_all_v(const S& send_blocks, R&& recv_blocks, std::error_code& why, tutti_stream stream = {}) const {
    const std::vector<tutti_block> from = list_of(send_blocks), to = list_of(recv_blocks);
    if (!fit(from.size(), ranks(why), why) || !fit(to.size(), ranks(why), why)) return;
    detail::note(tutti_all_to_all_v(from.data(), to.data(), type_of<Element<std::ranges::range_reference_t<R>>>, get(),
                                    stream, nullptr),
                 why);
  }
  template <Blocks S, ReceivedBlocks R>
    requires BlocksAlike<S, std::ranges::range_reference_t<R>>
  void all_to_all_v(const S& send_blocks, R&& recv_blocks, tutti_stream stream = {}) const {
    std::error_code why;
    all_to_all_v(send_blocks, recv_blocks, why, stream);
    detail::check(why);
  }
  /// recv_blocks[r] is as long as rank r's send on the root; recv_blocks is ignored elsewhere, where it may be empty.
  template <Sent S, ReceivedBlocks B>
    requires BlocksAlike<B, S>
  void gather_v(S&& send, B&& recv_blocks, int root, std::error_code& why, tutti_stream stream = {}) const {
    const std::vector<tutti_block> blocks = list_of(recv_blocks);
    if (!at_root(root, blocks.size(), ranks(why), why)) return;
    detail::note(tutti_gather_v(first(send), count(send), blocks.data(), type_of<Element<S>>, root, get(), stream, nullptr),
                 why);
  }
  template <Sent S, ReceivedBlocks B>
    requires BlocksAlike<B, S>
  void gather_v(S&& send, B&& recv_blocks, int root, tutti_stream stream = {}) const {
    std::error_code why;
    gather_v(send, recv_blocks, root, why, stream);
    detail::check(why);
  }
  /// send_blocks[r] is as long as rank r's recv on the root; send_blocks is ignored elsewhere, where it may be empty.
  template <Blocks B, Received R>
    requires BlocksAlike<B, R>
  void scatter_v(const B& send_blocks, R&& recv, int root, std::error_code& why, tutti_stream stream = {}) const {
    const std::vector<tutti_block> blocks = list_of(send_blocks);
    if (!at_root(root, blocks.size(), ranks(why), why)) return;
    detail::note(
        tutti_scatter_v(blocks.data(), first(recv), count(recv), type_of<Element<R>>, root, get(), stream, nullptr), why);
  }
  template <Blocks B, Received R>
    requires BlocksAlike<B, R>
  void scatter_v(const B& send_blocks, R&& recv, int root, tutti_stream stream = {}) const {
    std::error_code why;
    scatter_v(send_blocks, recv, root, why, stream);
    detail::check(why);
  }

  void barrier(tutti_stream stream = {}) const {
    std::error_code why;
    barrier(why, stream);
    detail::check(why);
  }
  void barrier(std::error_code& why, tutti_stream stream = {}) const {
    detail::note(tutti_barrier(get(), stream, nullptr), why);
  }

  template <Sent S>
  void send(S&& data, int peer, std::uint64_t tag = 0, tutti_stream stream = {}) const {
    std::error_code why;
    send(data, peer, why, tag, stream);
    detail::check(why);
  }
  template <Sent S>
  void send(S&& data, int peer, std::error_code& why, std::uint64_t tag = 0, tutti_stream stream = {}) const {
    const tutti_call call = tagged(tag);
    detail::note(tutti_send(first(data), count(data), type_of<Element<S>>, peer, get(), stream, &call), why);
  }
  /// Receives at most as many elements as data holds.
  template <Received R>
  void recv(R&& data, int peer, std::uint64_t tag = 0, tutti_stream stream = {}) const {
    std::error_code why;
    recv(data, peer, why, tag, stream);
    detail::check(why);
  }
  template <Received R>
  void recv(R&& data, int peer, std::error_code& why, std::uint64_t tag = 0, tutti_stream stream = {}) const {
    const tutti_call call = tagged(tag);
    detail::note(tutti_recv(first(data), count(data), type_of<Element<R>>, peer, get(), stream, &call), why);
  }

 private:
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
  static tutti_call tagged(std::uint64_t tag) {
    tutti_call call = TUTTI_CALL_INIT;
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
  static bool fit(std::size_t a, std::size_t b, std::error_code& why) {
    why = a == b ? std::error_code() : std::make_error_code(std::errc::invalid_argument);
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

}  // namespace tutti

#endif  // TUTTI_TUTTI_HPP_
