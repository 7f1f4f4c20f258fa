#include "src/base/module_folder.h"

#include <dlfcn.h>

#include <filesystem>
#include <system_error>

namespace tutti {

std::string module_folder(const std::string& setting, const void* code) {
  if (!setting.empty()) return setting;
  Dl_info own{};
  // Found by an address within this code, which tells the file even where it was loaded by another name.
  const void* const within = code != nullptr ? code : reinterpret_cast<const void*>(&module_folder);
  if (::dladdr(within, &own) == 0 || own.dli_fname == nullptr) return "tutti";
  std::error_code unknown;
  const std::filesystem::path file = std::filesystem::weakly_canonical(own.dli_fname, unknown);
  return ((unknown ? std::filesystem::path(own.dli_fname) : file).parent_path() / "tutti").string();
}

}  // namespace tutti
