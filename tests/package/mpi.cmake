# Whether tutti::mpi brings MPI along, in whichever order a project finds the two, and stops where nobody finds MPI.
file(REMOVE_RECURSE ${FOLDER})
file(MAKE_DIRECTORY ${FOLDER}/package)
file(COPY ${PACKAGE} DESTINATION ${FOLDER}/package)
file(WRITE ${FOLDER}/package/tutti-targets.cmake
  "if(NOT TARGET tutti::tutti)\n  add_library(tutti::tutti INTERFACE IMPORTED)\nendif()\n")

# Configures and builds a project of these lines; leaves `code` and `said`.
function(try_project name lines)
  set(project ${FOLDER}/${name})
  file(WRITE ${project}/main.cpp "#include <mpi.h>\nint main() { return MPI_SUCCESS; }\n")
  file(WRITE ${project}/CMakeLists.txt
    "cmake_minimum_required(VERSION 3.25)\nproject(${name} CXX)\n${lines}\nadd_executable(${name} main.cpp)\n"
    "target_link_libraries(${name} PRIVATE tutti::mpi)\n")
  execute_process(COMMAND ${CMAKE_COMMAND} -S ${project} -B ${project}/build -G ${GENERATOR}
    -DCMAKE_MAKE_PROGRAM=${BUILDER} -DCMAKE_CXX_COMPILER=${COMPILER} -Dtutti_DIR=${FOLDER}/package
    RESULT_VARIABLE code OUTPUT_VARIABLE said ERROR_VARIABLE said)
  if(code EQUAL 0)
    execute_process(COMMAND ${CMAKE_COMMAND} --build ${project}/build
      RESULT_VARIABLE code OUTPUT_VARIABLE built ERROR_VARIABLE built)
    string(APPEND said "${built}")
  endif()
  set(code ${code} PARENT_SCOPE)
  set(said "${said}" PARENT_SCOPE)
endfunction()

function(expect_good name lines)
  try_project(${name} "${lines}")
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "${name}: ${said}")
  endif()
endfunction()

function(expect_refusal name lines words)
  try_project(${name} "${lines}")
  if(code EQUAL 0 OR NOT said MATCHES "${words}")
    message(FATAL_ERROR "${name} was to stop with \"${words}\": ${code} ${said}")
  endif()
endfunction()

expect_refusal(nobody "find_package(tutti REQUIRED)" "MPI::MPI_CXX")
expect_refusal(disabled "set(CMAKE_DISABLE_FIND_PACKAGE_MPI ON)\nfind_package(tutti REQUIRED COMPONENTS mpi)"
  "component mpi needs MPI for[ \n]+C\\+\\+")
expect_refusal(unknown "find_package(tutti REQUIRED COMPONENTS pigeon)"
  "no component pigeon")
try_project(probe "find_package(MPI COMPONENTS CXX)\nif(NOT MPI_CXX_FOUND)\nmessage(FATAL_ERROR no-mpi)\nendif()\nfind_package(tutti)")
if(said MATCHES "no-mpi")
  message("there is no MPI here")
  return()
endif()
expect_good(component "find_package(tutti REQUIRED COMPONENTS mpi)")
expect_good(before "find_package(MPI REQUIRED COMPONENTS CXX)\nfind_package(tutti REQUIRED)")
expect_good(after "find_package(tutti REQUIRED)\nfind_package(MPI REQUIRED COMPONENTS CXX)")
expect_good(twice "find_package(tutti REQUIRED)\nfind_package(tutti REQUIRED COMPONENTS mpi)")
