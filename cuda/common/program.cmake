# What the programs' CMakeLists.txt share: lab_program(NAME) builds NAME.cu.
# SPDX-License-Identifier: Apache-2.0
#
# Set the GPU with -DCMAKE_CUDA_ARCHITECTURES=80 (its compute capability without the dot); the default is an H100 or H200.
# Included before project(), so that the default is in place when CMake looks for the compiler.

if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 90a-real CACHE STRING "GPUs to build for")
endif()
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Kind of build")
endif()

function(lab_program name)
  add_executable(${name} ${name}.cu)
  target_compile_features(${name} PRIVATE cuda_std_17)
  target_compile_options(${name} PRIVATE -O3 -lineinfo "SHELL:-Werror all-warnings" -Xcompiler=-Wall,-Wextra,-Wshadow)
  target_link_libraries(${name} PRIVATE ${CMAKE_DL_LIBS})
  add_test(NAME ${name}_help COMMAND ${name} --help)
endfunction()
