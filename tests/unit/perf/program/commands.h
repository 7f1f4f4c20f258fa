// Commands of the shell, and what came of them.
#pragma once

#include <sys/wait.h>

#include <cstdio>
#include <string>

namespace tutti::test {

struct Finished {
  int code = -1;
  std::string text;
};

/// A command line of the shell, stdout and stderr together where they are not sent elsewhere.
inline Finished run(const std::string& command) {
  Finished finished;
  std::FILE* pipe = ::popen(("{ " + command + "; } 2>&1").c_str(), "r");
  if (pipe == nullptr) return finished;
  char buffer[4096];
  while (const std::size_t got = std::fread(buffer, 1, sizeof buffer, pipe)) finished.text.append(buffer, got);
  const int status = ::pclose(pipe);
  finished.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return finished;
}

}  // namespace tutti::test
