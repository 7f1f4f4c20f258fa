#include "src/base/status.h"

#include <cerrno>
#include <system_error>

namespace tutti {

bool is_shortage(int number) { return number == EMFILE || number == ENFILE || number == ENOBUFS || number == ENOMEM; }

Status system_error(std::string message, int number, std::string remedy) {
  Error error;
  error.status = TUTTI_SYSTEM_ERROR;
  error.system_error = number;
  error.message = std::move(message) + ": " + std::generic_category().message(number);
  error.remedy = remedy.empty() && is_shortage(number) ? kShortageRemedy : std::move(remedy);
  return Status(std::move(error));
}

}  // namespace tutti
