#include "src/base/status.h"

#include <cerrno>
#include <system_error>

namespace tutti {

Status system_error(std::string message, int number, std::string remedy) {
  Error error;
  error.status = TUTTI_SYSTEM_ERROR;
  error.system_error = number;
  error.message = std::move(message) + ": " + std::generic_category().message(number);
  const bool few = number == EMFILE || number == ENFILE;
  error.remedy = remedy.empty() && few ? "Raise the limit of open files (ulimit -n)" : std::move(remedy);
  return Status(std::move(error));
}

}  // namespace tutti
