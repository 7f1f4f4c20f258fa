# Everything comes from the distribution's packages; scripts/setup installs them.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(SODIUM REQUIRED IMPORTED_TARGET libsodium)
pkg_check_modules(HWLOC REQUIRED IMPORTED_TARGET hwloc)
pkg_check_modules(HWY REQUIRED IMPORTED_TARGET libhwy)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(ZLIB REQUIRED)
# pugixml as its static archive, so that the core library needs no shared one.
find_library(PUGIXML_ARCHIVE libpugixml.a)
find_path(PUGIXML_INCLUDE pugixml.hpp REQUIRED)
if(TUTTI_TESTS)
  find_package(GTest REQUIRED)
endif()
find_package(MPI COMPONENTS CXX QUIET)
# A solver of linear programs, for `tutti-plan synthesize` alone: without it the tool is built without that.
pkg_check_modules(CLP QUIET IMPORTED_TARGET clp)
