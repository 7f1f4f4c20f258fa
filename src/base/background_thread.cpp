#include "src/base/background_thread.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>

#include <new>
#include <system_error>

namespace tutti {

Result<std::thread> background_thread(const std::string& name, std::function<void()> body) {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread;
  int error = 0;
  try {
    thread = std::thread(std::move(body));
  } catch (const std::system_error& refused) {
    error = refused.code().value();
  } catch (const std::bad_alloc&) {
    error = ENOMEM;
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error != 0) {
    return system_error("Starting the library's thread " + name + " failed", error,
                        "Raise the limit of `ulimit -u`, or of the container's processes");
  }
  ::pthread_setname_np(thread.native_handle(), name.substr(0, 15).c_str());
  return thread;
}

}  // namespace tutti
