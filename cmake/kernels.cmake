# lib/tutti/libtutti_kernels.so: the device executor's kernels, by nvcc or else by clang 19. Without either there is no such
# file, and a call on device memory says so. CMake's own CUDA language is not used: the build's flags would reach it, and it
# links cudart.
set(TUTTI_KERNELS auto CACHE STRING "What compiles the kernels: auto, nvcc, clang or none")
# All that CUDA 13 has are 75;80;89;90;100;120, which take some 100 s of CPU. Newer devices run the PTX of 75.
set(TUTTI_CUDA_ARCHITECTURES 90 CACHE STRING "Architectures that nvcc compiles the kernels for, besides PTX for 75")
set(TUTTI_NVCC_OPTIONS --compress-mode=size CACHE STRING "Options of nvcc for the kernels")
if(NOT TUTTI_KERNELS MATCHES "^(auto|nvcc|clang|none)$")
  message(FATAL_ERROR "TUTTI_KERNELS is \"${TUTTI_KERNELS}\": one of auto, nvcc, clang and none is meant")
endif()

find_program(TUTTI_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES bin)
find_program(TUTTI_DEVICE_CLANG clang++-19)
set(compiler ${TUTTI_KERNELS})
if(compiler STREQUAL auto)
  if(TUTTI_NVCC)
    set(compiler nvcc)
  elseif(TUTTI_DEVICE_CLANG)
    set(compiler clang)
  else()
    set(compiler none)
  endif()
endif()
if((compiler STREQUAL nvcc AND NOT TUTTI_NVCC) OR (compiler STREQUAL clang AND NOT TUTTI_DEVICE_CLANG))
  message(FATAL_ERROR "TUTTI_KERNELS is \"${TUTTI_KERNELS}\", and there is no such compiler (nvcc, clang++-19)")
endif()
message(STATUS "Kernels for devices: ${compiler}")
if(compiler STREQUAL none OR TUTTI_SANITIZE)
  return()
endif()

set(source ${CMAKE_SOURCE_DIR}/src/executors/cuda/kernels.cu)
set(image ${CMAKE_BINARY_DIR}/kernels.image)
if(compiler STREQUAL nvcc)
  set(codes -gencode arch=compute_75,code=compute_75)
  foreach(architecture IN LISTS TUTTI_CUDA_ARCHITECTURES)
    list(APPEND codes -gencode arch=compute_${architecture},code=sm_${architecture})
  endforeach()
  # Folds give the host's bits: see docs/gpu.md.
  set(command ${TUTTI_NVCC} -std=c++20 -O3 --fatbin ${TUTTI_NVCC_OPTIONS} --expt-relaxed-constexpr --fmad=false --prec-div=true --ftz=false ${codes}
    -I${CMAKE_SOURCE_DIR} -I${CMAKE_SOURCE_DIR}/include -MD -MF ${image}.d -MT ${image} -o ${image} ${source})
else()
  # Not clang's own headers for CUDA, which want NVIDIA's: of its headers only those of the compiler.
  execute_process(COMMAND ${TUTTI_DEVICE_CLANG} -print-resource-dir OUTPUT_VARIABLE resources OUTPUT_STRIP_TRAILING_WHITESPACE)
  set(command ${TUTTI_DEVICE_CLANG} -x cuda --cuda-device-only --cuda-gpu-arch=sm_75 --cuda-path=/nonexistent --cuda-feature=+ptx64
    -nocudainc -nocudalib -nobuiltininc -isystem ${resources}/include -std=c++20 -O2 -ffp-contract=off -I${CMAKE_SOURCE_DIR} -I${CMAKE_SOURCE_DIR}/include -MD -MF ${image}.d -MT ${image} -S ${source} -o ${image})
endif()
add_custom_command(OUTPUT ${image} DEPENDS ${source} DEPFILE ${image}.d COMMAND ${command} COMMENT "Compiling the kernels with ${compiler}" VERBATIM)
set(header ${CMAKE_BINARY_DIR}/kernel_image.h)
add_custom_command(OUTPUT ${header} DEPENDS ${image} ${CMAKE_SOURCE_DIR}/cmake/image_size.cmake
  COMMAND ${CMAKE_COMMAND} -DIMAGE=${image} -DHEADER=${header} -P ${CMAKE_SOURCE_DIR}/cmake/image_size.cmake VERBATIM)
add_library(tutti_kernels MODULE src/executors/cuda/module/module_file.cpp ${header})
target_include_directories(tutti_kernels PRIVATE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/include)
target_compile_options(tutti_kernels PRIVATE -include ${header})
target_link_options(tutti_kernels PRIVATE -nostdlib)
set_target_properties(tutti_kernels PROPERTIES PREFIX lib SUFFIX .so UNITY_BUILD OFF
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/tutti)
