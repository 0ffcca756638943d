# SPDX-License-Identifier: BSD-3-Clause
# Finds libtorch inside a Python wheel or an unpacked libtorch and makes the target
# dist_train_torch. Done by hand because the wheel's own package file insists on a whole CUDA
# toolkit, which a CPU build neither has nor needs.
#
#   TORCH_ROOT       folder with include/ and lib/; default: the virtual environment in the build folder
#   DIST_TRAIN_CUDA  OFF links torch_cpu and c10 only; ON adds torch_cuda, c10_cuda and the NCCL that
#                    torch was built with; AUTO is ON where nvcc and libtorch_cuda.so are both found
set(TORCH_ROOT "" CACHE PATH "folder with include/ and lib/ of libtorch (…/site-packages/torch)")
set(torch_root "${TORCH_ROOT}")
if(NOT torch_root)
  file(GLOB torch_candidates ${CMAKE_BINARY_DIR}/venv/lib/python3*/site-packages/torch)
  if(torch_candidates)
    list(GET torch_candidates 0 torch_root)
  endif()
endif()

if(NOT EXISTS "${torch_root}/lib/libtorch_cpu.so")
  if(DIST_TRAIN_TRAINER STREQUAL "ON")
    message(FATAL_ERROR "dist-trainer needs libtorch: no lib/libtorch_cpu.so under TORCH_ROOT='${torch_root}'. "
      "Give -DTORCH_ROOT=…/site-packages/torch, or -DDIST_TRAIN_TRAINER=OFF to build without it.")
  endif()
  message(STATUS "dist-trainer is not built: no libtorch (TORCH_ROOT is empty or wrong)")
  return()
endif()

# Only the headers of these two are needed; libtorch brings the code. The wheel has no Gloo headers.
find_path(GLOO_INCLUDE_DIR gloo/rendezvous/store.h)
if(NOT GLOO_INCLUDE_DIR)
  message(FATAL_ERROR "dist-trainer needs Gloo's headers: install libgloo-dev, or set GLOO_INCLUDE_DIR")
endif()

add_library(dist_train_torch INTERFACE)
target_include_directories(dist_train_torch SYSTEM INTERFACE
  ${torch_root}/include ${torch_root}/include/torch/csrc/api/include)
# GCC 12 warns about code inside libtorch's inline functions after inlining them into ours.
target_compile_options(dist_train_torch INTERFACE -Wno-array-bounds -Wno-stringop-overflow)
# Libraries find their companions through their own RPATH; the linker need not look for them.
target_link_options(dist_train_torch INTERFACE
  -Wl,-rpath,${torch_root}/lib -Wl,--allow-shlib-undefined -Wl,--no-as-needed)
target_link_libraries(dist_train_torch INTERFACE
  ${torch_root}/lib/libtorch_cpu.so ${torch_root}/lib/libc10.so)

set(cuda_wanted ${DIST_TRAIN_CUDA})
if(cuda_wanted STREQUAL "AUTO")
  find_program(NVCC nvcc HINTS /usr/local/cuda/bin)
  if(NVCC AND EXISTS ${torch_root}/lib/libtorch_cuda.so)
    set(cuda_wanted ON)
  else()
    set(cuda_wanted OFF)
  endif()
endif()

if(cuda_wanted)
  get_filename_component(site_packages ${torch_root} DIRECTORY)
  # The NCCL beside the wheel, never an older one of the system.
  find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${site_packages}/nvidia/nccl/include NO_CMAKE_SYSTEM_PATH)
  find_library(NCCL_LIBRARY NAMES libnccl.so.2 nccl HINTS ${site_packages}/nvidia/nccl/lib NO_CMAKE_SYSTEM_PATH)
  find_path(CUDA_INCLUDE_DIR cuda_runtime_api.h HINTS /usr/local/cuda/include ${site_packages}/nvidia/cu13/include)
  foreach(needed NCCL_INCLUDE_DIR NCCL_LIBRARY CUDA_INCLUDE_DIR)
    if(NOT ${needed})
      message(FATAL_ERROR "DIST_TRAIN_CUDA=${DIST_TRAIN_CUDA} needs ${needed}: set it, or use -DDIST_TRAIN_CUDA=OFF")
    endif()
  endforeach()
  if(NOT EXISTS ${torch_root}/lib/libtorch_cuda.so)
    message(FATAL_ERROR "DIST_TRAIN_CUDA=ON, but ${torch_root}/lib has no libtorch_cuda.so: use a CUDA build of torch")
  endif()
  set(DIST_TRAIN_CUDA_FOUND ON)
  target_compile_definitions(dist_train_torch INTERFACE DIST_TRAIN_CUDA=1)
  target_include_directories(dist_train_torch SYSTEM INTERFACE ${NCCL_INCLUDE_DIR} ${CUDA_INCLUDE_DIR})
  target_link_libraries(dist_train_torch INTERFACE
    ${torch_root}/lib/libtorch_cuda.so ${torch_root}/lib/libc10_cuda.so ${NCCL_LIBRARY})
endif()
message(STATUS "libtorch: ${torch_root} (CUDA: ${cuda_wanted})")
