// Tutti in C++: RAII over tutti.h, with std::span, and exceptions or std::error_code at the caller's choice.
//
//     tutti::Communicator comm("env://");            // throws tutti::Failure
//     comm.all_reduce(std::span<float>(gradients));  // in place
//
//     std::error_code why;
//     comm.barrier(why);                             // does not throw
//
// Header-only: it uses the C face alone. Objects are movable, not copyable. Thread safety is tutti.h's.
#ifndef TUTTI_TUTTI_HPP_
#define TUTTI_TUTTI_HPP_

#if __cplusplus < 202002L
#error "tutti/tutti.hpp takes C++20: compile with -std=c++20, or use tutti/tutti.h"
#endif

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <system_error>
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

inline void note(tutti_status status, std::error_code& why) {
  why = status == TUTTI_SUCCESS ? std::error_code() : std::error_code(static_cast<int>(status), status_category());
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
template <>
struct TypeOf<float> {
  static constexpr tutti_type value = TUTTI_FLOAT32;
};
template <>
struct TypeOf<double> {
  static constexpr tutti_type value = TUTTI_FLOAT64;
};

}  // namespace detail

/// The tutti_type of a C++ element type; 16-bit floats have none and go through the C face.
template <typename T>
inline constexpr tutti_type type_of = detail::TypeOf<T>::value;

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

/// Runs operations behind the caller's back, in order. Destruction completes what was enqueued.
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

/// One rank's membership of a group. Every collective has a form that throws Failure and one that fills an
/// std::error_code; `stream` defaults to blocking. Spans of send and recv may be the same for in place.
class Communicator {
 public:
  /// Takes over a handle.
  explicit Communicator(tutti_comm* comm) : comm_(comm) {}
  /// Joins at an address, see tutti_comm_create_address; -1: from the launcher's environment.
  explicit Communicator(const char* address, int ranks = -1, int rank = -1, const tutti_config* config = nullptr) {
    tutti_comm* comm = nullptr;
    detail::check(tutti_comm_create_address(&comm, address, ranks, rank, config));
    comm_.reset(comm);
  }
  Communicator(const tutti_unique_id& id, int ranks, int rank, const tutti_config* config = nullptr) {
    tutti_comm* comm = nullptr;
    detail::check(tutti_comm_create(&comm, ranks, &id, rank, config));
    comm_.reset(comm);
  }

  int rank() const {
    int rank = -1;
    detail::check(tutti_comm_rank(comm_.get(), &rank));
    return rank;
  }
  int size() const {
    int ranks = 0;
    detail::check(tutti_comm_size(comm_.get(), &ranks));
    return ranks;
  }
  tutti_comm* get() const { return comm_.get(); }
  /// The group of `color`; an empty Communicator (get() == nullptr) for a negative one.
  Communicator split(int color, int key) const {
    tutti_comm* out = nullptr;
    detail::check(tutti_comm_split(comm_.get(), color, key, &out, nullptr));
    return Communicator(out);
  }
  void abort() const { static_cast<void>(tutti_comm_abort(comm_.get())); }

  /// Folds in place.
  template <typename T>
  void all_reduce(std::span<T> data, tutti_op op = TUTTI_SUM, tutti_stream stream = {}) const {
    detail::check(tutti_all_reduce(data.data(), data.data(), data.size(), type_of<T>, op, get(), stream, nullptr));
  }
  template <typename T>
  void all_reduce(std::span<T> data, std::error_code& why, tutti_op op = TUTTI_SUM, tutti_stream stream = {}) const {
    detail::note(tutti_all_reduce(data.data(), data.data(), data.size(), type_of<T>, op, get(), stream, nullptr), why);
  }
  /// Out of place; equal sizes, else std::invalid_argument.
  template <typename T>
  void all_reduce(std::span<const T> send, std::span<T> recv, tutti_op op = TUTTI_SUM, tutti_stream stream = {}) const {
    same(send.size(), recv.size());
    detail::check(tutti_all_reduce(send.data(), recv.data(), send.size(), type_of<T>, op, get(), stream, nullptr));
  }
  /// As all_reduce in place, behind the caller's back.
  template <typename T>
  Work all_reduce(std::span<T> data, const Queue& queue, tutti_op op = TUTTI_SUM) const {
    tutti_work* work = nullptr;
    tutti_call call = TUTTI_CALL_INIT;
    call.work = &work;
    detail::check(tutti_all_reduce(data.data(), data.data(), data.size(), type_of<T>, op, get(), queue.stream(), &call));
    return Work(work);
  }
  template <typename T>
  void reduce(std::span<const T> send, std::span<T> recv, int root, tutti_op op = TUTTI_SUM,
              tutti_stream stream = {}) const {
    detail::check(tutti_reduce(send.data(), recv.data(), send.size(), type_of<T>, op, root, get(), stream, nullptr));
  }
  template <typename T>
  void broadcast(std::span<T> data, int root, tutti_stream stream = {}) const {
    detail::check(tutti_broadcast(data.data(), data.data(), data.size(), type_of<T>, root, get(), stream, nullptr));
  }
  /// recv holds size() times send.
  template <typename T>
  void all_gather(std::span<const T> send, std::span<T> recv, tutti_stream stream = {}) const {
    same(send.size() * static_cast<std::size_t>(size()), recv.size());
    detail::check(tutti_all_gather(send.data(), recv.data(), send.size(), type_of<T>, get(), stream, nullptr));
  }
  /// send holds size() times recv.
  template <typename T>
  void reduce_scatter(std::span<const T> send, std::span<T> recv, tutti_op op = TUTTI_SUM, tutti_stream stream = {}) const {
    same(send.size(), recv.size() * static_cast<std::size_t>(size()));
    detail::check(tutti_reduce_scatter(send.data(), recv.data(), recv.size(), type_of<T>, op, get(), stream, nullptr));
  }
  /// send and recv hold size() blocks each.
  template <typename T>
  void all_to_all(std::span<const T> send, std::span<T> recv, tutti_stream stream = {}) const {
    same(send.size(), recv.size());
    const std::size_t ranks = static_cast<std::size_t>(size());
    same(send.size() % ranks, 0);
    detail::check(tutti_all_to_all(send.data(), recv.data(), send.size() / ranks, type_of<T>, get(), stream, nullptr));
  }
  void barrier(tutti_stream stream = {}) const { detail::check(tutti_barrier(get(), stream, nullptr)); }
  void barrier(std::error_code& why) const { detail::note(tutti_barrier(get(), {}, nullptr), why); }

  template <typename T>
  void send(std::span<const T> data, int peer, std::uint64_t tag = 0, tutti_stream stream = {}) const {
    tutti_call call = TUTTI_CALL_INIT;
    call.tag = tag;
    detail::check(tutti_send(data.data(), data.size(), type_of<T>, peer, get(), stream, &call));
  }
  template <typename T>
  void recv(std::span<T> data, int peer, std::uint64_t tag = 0, tutti_stream stream = {}) const {
    tutti_call call = TUTTI_CALL_INIT;
    call.tag = tag;
    detail::check(tutti_recv(data.data(), data.size(), type_of<T>, peer, get(), stream, &call));
  }

 private:
  static void same(std::size_t a, std::size_t b) {
    if (a != b) throw std::invalid_argument("tutti: the spans' sizes do not fit together");
  }
  struct Destroy {
    void operator()(tutti_comm* comm) const { static_cast<void>(tutti_comm_destroy(comm)); }
  };
  std::unique_ptr<tutti_comm, Destroy> comm_;
};

}  // namespace tutti

#endif  // TUTTI_TUTTI_HPP_
