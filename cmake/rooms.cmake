# tutti_room(NAME [SOURCES files] [LINKS targets] [PRIVATE_LINKS targets])
# A room of the house is a static library of the repository's root include path; its LINKS are what it may import.
# Without sources it is header-only.
function(tutti_room name)
  cmake_parse_arguments(ROOM "" "" "SOURCES;LINKS;PRIVATE_LINKS" ${ARGN})
  if(ROOM_SOURCES)
    add_library(tutti_${name} STATIC ${ROOM_SOURCES})
    target_include_directories(tutti_${name} PUBLIC ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/include)
    target_link_libraries(tutti_${name} PUBLIC ${ROOM_LINKS} PRIVATE ${ROOM_PRIVATE_LINKS})
  else()
    add_library(tutti_${name} INTERFACE)
    target_include_directories(tutti_${name} INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/include)
    target_link_libraries(tutti_${name} INTERFACE ${ROOM_LINKS})
  endif()
endfunction()

# tutti_program(NAME [SOURCES files] [LINKS targets]): an executable in build/bin that includes public headers.
function(tutti_program name)
  cmake_parse_arguments(PROGRAM "" "" "SOURCES;LINKS" ${ARGN})
  add_executable(${name} ${PROGRAM_SOURCES})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/include)
  target_link_libraries(${name} PRIVATE ${PROGRAM_LINKS})
endfunction()

# tutti_test(NAME SOURCES files [LINKS targets] [LABELS labels] [TIMEOUT seconds] [SERIAL])
# One GoogleTest executable, one CTest test. The label `core` (<= 9 ranks, <= 64 Ki elements) runs under sanitizers
# too; `quick` belongs to scripts/test --quick.
function(tutti_test name)
  cmake_parse_arguments(TEST "SERIAL" "TIMEOUT" "SOURCES;LINKS;LABELS;ARGS" ${ARGN})
  add_executable(${name} ${TEST_SOURCES})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/include)
  target_link_libraries(${name} PRIVATE ${TEST_LINKS} GTest::gmock GTest::gtest GTest::gtest_main)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME ${name} COMMAND ${name} ${TEST_ARGS})
  if(NOT TEST_TIMEOUT)
    set(TEST_TIMEOUT 300)
  endif()
  if(TUTTI_SANITIZE)
    math(EXPR TEST_TIMEOUT "${TEST_TIMEOUT} * 4")  # what takes a second without takes several with
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${TEST_LABELS}" TIMEOUT ${TEST_TIMEOUT})
  if("core" IN_LIST TEST_LABELS)
    add_dependencies(tutti_core_tests ${name})
  endif()
  if(TEST_SERIAL)
    set_tests_properties(${name} PROPERTIES RUN_SERIAL ON)
  endif()
endfunction()

# What the sanitizers' builds make: the tests that carry the label `core`.
add_custom_target(tutti_core_tests)
