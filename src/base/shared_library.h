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

/// A function that has to be there, and where it is to be put.
template <typename Function>
struct Wanted {
  const char* name;
  Function& function;
};

/// Loads a library, and finds all its functions that are wanted; nullptr, with nothing loaded, where it or one of them is
/// missing. Who keeps the functions keeps the library. Thread safe.
template <typename... Functions>
void* open_library(const char* file, Wanted<Functions>... wanted) {
  void* const library = ::dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr || (find_function(library, wanted.name, wanted.function) && ...)) return library;
  ::dlclose(library);
  return nullptr;
}

}  // namespace tutti
