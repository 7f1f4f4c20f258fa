// Part of a test that runs in a process of its own: what it sets or breaks there is nobody else's.
#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <functional>

namespace tutti::test {

/// Runs `body` in a child of this process, whose failures are this test's.
class Child {
 public:
  /// ends_by: the signal that it is to be ended by, 0: none.
  explicit Child(const std::function<void()>& body, int ends_by = 0) : ends_by_(ends_by), pid_(fork_flushed()) {
    if (pid_ != 0) return;
    ::alarm(120);
    const int before = failures();  // the parent's own
    body();
    std::fflush(nullptr);  // what failed, which _exit would lose
    ::_exit(failures() != before ? 1 : 0);
  }
  ~Child() {
    int status = -1;
    EXPECT_EQ(::waitpid(pid_, &status, 0), pid_);
    EXPECT_EQ(status, ends_by_) << "a child failed, or was ended by signal "
                                << (WIFSIGNALED(status) ? WTERMSIG(status) : 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  pid_t pid() const { return pid_; }

 private:
  static int failures() {
    const testing::TestInfo* const test = testing::UnitTest::GetInstance()->current_test_info();
    int failed = 0;
    for (int part = 0; test != nullptr && part < test->result()->total_part_count(); ++part)
      failed += test->result()->GetTestPartResult(part).failed() ? 1 : 0;
    return failed;
  }
  // What this process has not written yet is not the child's to write.
  static pid_t fork_flushed() {
    std::fflush(nullptr);
    return ::fork();
  }

  int ends_by_;
  pid_t pid_;
};

/// Sets both limits of a resource, such as RLIMIT_FSIZE.
inline void limit(int resource, rlim_t to) {
  const rlimit both{to, to};
  EXPECT_EQ(::setrlimit(static_cast<__rlimit_resource>(resource), &both), 0);
}

/// What a child of this process answers. What it loads or starts for that is gone with it.
inline bool child_says(const std::function<bool()>& question) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) ::_exit(question() ? 0 : 1);
  int status = -1;
  return ::waitpid(child, &status, 0) == child && status == 0;
}

}  // namespace tutti::test
