# The CUDA language, where there is a compiler for it. Sets CAIRN_HAVE_CUDA.
set(CAIRN_CUDA AUTO CACHE STRING "Build the CUDA backend: AUTO (when nvcc is found), ON or OFF")
set_property(CACHE CAIRN_CUDA PROPERTY STRINGS AUTO ON OFF)
set(CAIRN_HAVE_CUDA OFF)
if(CAIRN_CUDA STREQUAL "AUTO" AND CAIRN_SANITIZE)
  return()  # the sanitizers look at the same kernels through tests/simt
endif()
if(NOT CAIRN_CUDA)
  return()
endif()

find_program(CAIRN_NVCC nvcc HINTS ENV CUDA_PATH /usr/local/cuda PATH_SUFFIXES bin)
if(CAIRN_NVCC AND NOT DEFINED ENV{CUDACXX})
  set(ENV{CUDACXX} ${CAIRN_NVCC})  # where check_language tries first
endif()
include(CheckLanguage)
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  if(NOT CAIRN_CUDA STREQUAL "AUTO")
    message(FATAL_ERROR "CAIRN_CUDA=${CAIRN_CUDA}: no working nvcc was found; name one with -DCAIRN_NVCC=")
  endif()
  message(STATUS "CUDA backend: no (no nvcc)")
  return()
endif()

if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 75-real 80-real 90)  # and PTX of the last, for later ones
endif()
enable_language(CUDA)
# CMake 3.25 knows no C++20 flag of nvcc.
foreach(kind STANDARD EXTENSION)
  if(NOT DEFINED CMAKE_CUDA20_${kind}_COMPILE_OPTION)
    set(CMAKE_CUDA20_${kind}_COMPILE_OPTION "-std=c++20")
  endif()
endforeach()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
if(CCACHE)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
endif()
set(CAIRN_HAVE_CUDA ON)
message(STATUS "CUDA backend: yes (${CMAKE_CUDA_COMPILER} ${CMAKE_CUDA_COMPILER_VERSION})")

# cairn_cuda_objects(NAME sources...): kernels for the device. Bits are part of the contract: no contraction.
function(cairn_cuda_objects name)
  add_library(${name} OBJECT ${ARGN})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_compile_options(${name} PRIVATE --fmad=false)
  if(NOT CAIRN_GPU_CHECK)
    # A kernel that spills registers or indexes an array in memory does not compile.
    target_compile_options(${name} PRIVATE "SHELL:-Werror all-warnings" -Xcompiler=-Wall,-Wextra
                           "SHELL:-Xptxas --warn-on-spills,--warn-on-local-memory-usage")
  endif()
endfunction()
