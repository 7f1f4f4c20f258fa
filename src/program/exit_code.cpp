#include "src/program/exit_code.h"

#include <algorithm>
#include <cctype>
#include <iterator>

namespace tutti::program {
namespace {

int weight(int code) {
  switch (code) {
    case kGood:
      return 0;
    case kPeerLost:
      return 1;
    case kWrongUse:
      return 3;
    case kWrongData:
      return 4;
    default:
      return 2;
  }
}

// "Raise X" continues a sentence as "raise X"; "TUTTI_X" and "I/O" stay as they are.
std::string continued(std::string text) {
  const auto letter = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  if (text.size() > 1 && std::isupper(letter(0)) && std::islower(letter(1))) {
    text[0] = static_cast<char>(std::tolower(letter(0)));
  }
  return text;
}

std::string without_stop(std::string text) {
  while (!text.empty() && (text.back() == '.' || text.back() == ' ' || text.back() == '\n')) text.pop_back();
  return text;
}

}  // namespace

ExitCode exit_code(tutti_status status) {
  switch (status) {
    case TUTTI_SUCCESS:
      return kGood;
    case TUTTI_INVALID_ARGUMENT:
    case TUTTI_MISMATCH:
    case TUTTI_UNSUPPORTED:
      return kWrongUse;
    case TUTTI_REMOTE_ERROR:
    case TUTTI_TIMEOUT:
    case TUTTI_ABORTED:
      return kPeerLost;
    default:
      return kFailed;
  }
}

int worse(int a, int b) { return weight(b) > weight(a) ? b : a; }

std::string one_sentence(const std::string& message, const std::string& remedy) {
  const std::string rest = without_stop(remedy);
  return without_stop(message) + (rest.empty() ? "" : "; " + continued(rest));
}

std::string error_sentence(const tutti_comm* comm, tutti_status status) {
  tutti_error error = {};
  error.size = sizeof(error);
  // A refused call leaves the communicator well, and its sentence with this thread.
  const tutti_comm* const places[] = {comm, nullptr};
  const bool known = std::any_of(std::begin(places), std::end(places), [&](const tutti_comm* place) {
    return tutti_error_get(place, &error) == TUTTI_SUCCESS && error.status == status && error.message[0] != 0;
  });
  if (!known) return tutti_status_string(status);
  return one_sentence(error.message, error.remedy);
}

}  // namespace tutti::program
