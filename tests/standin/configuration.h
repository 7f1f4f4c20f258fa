// What the STANDIN_ variables say.
#pragma once

#include <string>

#include "tests/standin/state.h"

namespace standin {

/// The values of the environment over the defaults. A malformed value keeps the default, and is said on stderr.
Configuration read_environment();

/// Sets one value by its name without STANDIN_. Whether it was understood.
bool set_value(Configuration& configuration, const std::string& name, const std::string& value);

/// Whether two devices reach each other. A device reaches itself.
bool linked(const Configuration& configuration, int one, int other);

}  // namespace standin
