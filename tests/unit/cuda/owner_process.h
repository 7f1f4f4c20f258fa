// Another process that owns device memory: tests/unit/cuda/owner.cpp, spoken to over a socket.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "src/base/unique_fd.h"
#include "tests/unit/cuda/beside.h"

namespace tutti::cuda {

class OwnerProcess {
 public:
  enum class Errors { shown, hidden };

  /// Starts it in one of its modes; hidden: what it says on stderr is not this test's.
  explicit OwnerProcess(const std::string& mode, Errors errors = Errors::shown) {
    const std::string program = beside("cuda_owner");
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    socket_.reset(ends[0]);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(ends[1], 3);
      if (errors == Errors::hidden) ::dup2(::open("/dev/null", O_WRONLY), STDERR_FILENO);
      if (ends[0] != 3) ::close(ends[0]);
      ::execl(program.c_str(), program.c_str(), mode.c_str(), static_cast<char*>(nullptr));
      ::_exit(127);
    }
    ::close(ends[1]);
  }
  OwnerProcess(const OwnerProcess&) = delete;
  OwnerProcess& operator=(const OwnerProcess&) = delete;
  ~OwnerProcess() {
    socket_.reset();  // by which it ends
    if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
  }

  template <typename T>
  T read() {
    T value{};
    EXPECT_EQ(::recv(socket_.get(), &value, sizeof(value), MSG_WAITALL), static_cast<ssize_t>(sizeof(value)));
    return value;
  }

  void tell(char command) { EXPECT_EQ(::send(socket_.get(), &command, 1, MSG_NOSIGNAL), 1); }

  UniqueFd receive_descriptor() {
    char byte = 0;
    iovec piece{&byte, 1};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    EXPECT_EQ(::recvmsg(socket_.get(), &message, 0), 1);
    int descriptor = -1;
    if (const cmsghdr* const header = CMSG_FIRSTHDR(&message))
      std::memcpy(&descriptor, CMSG_DATA(header), sizeof(descriptor));
    return UniqueFd(descriptor);
  }

  void kill() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

  /// Waits for its end; its exit status, -1 where a signal ended it.
  int wait() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  UniqueFd socket_;
  pid_t pid_ = -1;
};

}  // namespace tutti::cuda
