// How many operations of a communicator are under way elsewhere: whoever wants to free it waits until there are none.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>

namespace tutti {

class Admission;
class Visit;

/// Thread safe. Outlived by its admissions, so that letting go of the last one touches nothing that its waiter frees.
class Outstanding {
 public:
  /// One operation under way, until the admission is let go of; nullptr once closed. Throws std::bad_alloc.
  std::shared_ptr<Admission> admit() const;
  /// From now on there are no new admissions.
  void close() const;
  /// From now on nothing begins that has not begun, and nobody waits for that: it may be behind others on a queue.
  void abandon() const;
  /// Waits at most ns until nothing is under way; whether that is so.
  bool wait(std::uint64_t ns) const;

 private:
  friend class Admission;
  friend class Visit;
  struct Count {
    bool settled() const { return admitted == 0 || (abandoned && begun == 0); }
    /// With the mutex held.
    void leave(bool had_begun) {
      --admitted;
      if (had_begun) --begun;
      if (settled()) zero.notify_all();
    }

    std::mutex mutex;
    std::condition_variable zero;
    std::uint64_t admitted = 0;
    std::uint64_t begun = 0;  ///< of those
    bool closed = false;
    bool abandoned = false;
  };
  std::shared_ptr<Count> count_ = std::make_shared<Count>();
};

/// That one operation is under way.
class Admission {
 public:
  explicit Admission(std::shared_ptr<Outstanding::Count> count);
  ~Admission();
  Admission(const Admission&) = delete;
  Admission& operator=(const Admission&) = delete;

  /// To be called before the operation touches its communicator. False: that was destroyed, and is gone.
  bool begin();

 private:
  const std::shared_ptr<Outstanding::Count> count_;
  bool begun_ = false;
};

/// That the caller is in an operation, which has begun: an admission without memory of its own.
class Visit {
 public:
  explicit Visit(const Outstanding& outstanding);
  ~Visit();
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;

  /// False: closed, so nothing may begin.
  bool admitted() const { return admitted_; }

 private:
  const std::shared_ptr<Outstanding::Count> count_;
  bool admitted_ = false;
};

}  // namespace tutti
