// What signals do to the programs that a test starts, whatever started the test.
#pragma once

#include <signal.h>

namespace tutti::test {

/// SIGINT, SIGTERM and SIGHUP end this process and those that it starts: under nohup, or in a script's background, some
/// were ignored from the beginning.
inline void mind_signals() {
  for (const int each : {SIGINT, SIGTERM, SIGHUP}) ::signal(each, SIG_DFL);
}

}  // namespace tutti::test
