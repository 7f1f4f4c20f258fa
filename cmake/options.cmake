# What a build can be told, and the flags that follow from it.
# What has to be fast is vectorised by hand, and g++ 12 at -O3 warns of much that is not there.
string(REPLACE "-O3" "-O2" CMAKE_CXX_FLAGS_RELEASE "${CMAKE_CXX_FLAGS_RELEASE}")

option(TUTTI_TESTS "Build the tests" ON)
option(TUTTI_WERROR "Warnings are errors" OFF)
option(TUTTI_UNITY "Compile the files of a room together: a third of the time from nothing, more after an edit" ON)
set(TUTTI_SANITIZE "" CACHE STRING "Sanitizers, as -fsanitize= takes them: address,undefined or thread")

add_compile_options(-Wall -Wextra -Wpedantic -Wshadow -Wcast-align -Wnull-dereference -Wimplicit-fallthrough)
foreach(warning IN ITEMS -Wnon-virtual-dtor -Wold-style-cast -Woverloaded-virtual)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:${warning}>)
endforeach()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-missing-field-initializers>)
  if(TUTTI_UNITY)
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)  # takes included files for headers
  endif()
  if(CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    add_compile_options(-Wno-restrict)  # g++ 12 sees overlaps in `"x" + std::string` that are not there (its bug 105651)
  endif()
endif()
if(TUTTI_WERROR)
  add_compile_options(-Werror)
endif()
if(TUTTI_SANITIZE)
  add_compile_options(-fsanitize=${TUTTI_SANITIZE} -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=${TUTTI_SANITIZE})
  if(TUTTI_SANITIZE MATCHES "undefined")
    # The check of dynamic types reads an object through a pipe: where a test has taken all descriptors, it cries wolf. Null
    # pointers and objects' ends are the address sanitizer's, and take a fifth of the compiler's time.
    add_compile_options(-fno-sanitize-recover=undefined -fno-sanitize=vptr,null,object-size)
  endif()
endif()

# For tests' own code, so that it compiles in half the time, and with UBSan in a third: the rooms it calls keep theirs.
set(TUTTI_TEST_OPTIONS)
if(TUTTI_SANITIZE MATCHES "undefined")
  set(TUTTI_TEST_OPTIONS -O0)
elseif(CMAKE_BUILD_TYPE STREQUAL "Release")
  set(TUTTI_TEST_OPTIONS -O1)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  list(APPEND TUTTI_TEST_OPTIONS -fpch-preprocess)  # as ccache asks where headers are precompiled
  # Half optimised, it sees in the C++ library's own code what is not there.
  list(APPEND TUTTI_TEST_OPTIONS -Wno-array-bounds -Wno-maybe-uninitialized -Wno-stringop-overflow -Wno-stringop-overread)
endif()

set(CMAKE_UNITY_BUILD ${TUTTI_UNITY})
set(CMAKE_UNITY_BUILD_BATCH_SIZE 8)

find_program(TUTTI_CCACHE ccache)
if(TUTTI_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Paths within the source folder count as relative to it, so that clones and worktrees share what they compile.
  set(launcher ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
    CCACHE_SLOPPINESS=pch_defines,time_macros ${TUTTI_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
  set(CMAKE_C_COMPILER_LAUNCHER ${launcher})
endif()
