#include "src/base/status.h"

#include <cerrno>
#include <system_error>

namespace tutti {

bool is_shortage(int number) { return number == EMFILE || number == ENFILE || number == ENOBUFS || number == ENOMEM; }

namespace {
const char* remedy_of(int number) {
  if (number == EMFILE) return "Raise the limit of open files (`ulimit -n`)";
  return is_shortage(number) ? kShortageRemedy : "";
}
}  // namespace

Status system_error(std::string message, int number, std::string remedy) {
  Error error;
  error.status = TUTTI_SYSTEM_ERROR;
  error.system_error = number;
  error.message = std::move(message) + ": " + std::generic_category().message(number);
  error.remedy = remedy.empty() ? remedy_of(number) : std::move(remedy);
  return Status(std::move(error));
}

}  // namespace tutti
