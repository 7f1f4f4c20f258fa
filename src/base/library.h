// Functions of libraries that are loaded while the program runs.
#pragma once

#include <dlfcn.h>

namespace tutti {

/// Sets `function` to the library's function of this name, nullptr where it has none; whether it has. library: as dlopen
/// gave it. The caller vouches for the type. Thread safe.
template <typename Function>
bool find_function(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

}  // namespace tutti
