// What a thread that is cancelled does to the end.
#pragma once

#include <pthread.h>

namespace tutti {

/// While it lives this thread is not cancelled; a cancellation that comes meanwhile, or came before, waits for the next
/// point after it. For destructors and whatever else lets no exception out: a cancellation unwinds as one, and would end
/// the process there.
class NoCancellation {
 public:
  NoCancellation() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~NoCancellation() { pthread_setcancelstate(before_, nullptr); }
  NoCancellation(const NoCancellation&) = delete;
  NoCancellation& operator=(const NoCancellation&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

}  // namespace tutti
