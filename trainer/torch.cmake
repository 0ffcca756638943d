# SPDX-License-Identifier: BSD-3-Clause
# Finds libtorch inside a Python wheel or an unpacked libtorch and makes the target
# dist_train_torch. Done by hand because the wheel's own package file insists on a whole CUDA
# toolkit, which a CPU build neither has nor needs.
set(TORCH_ROOT "" CACHE PATH "folder with include/ and lib/ of libtorch (…/site-packages/torch)")
if(NOT TORCH_ROOT)
  file(GLOB torch_candidates ${CMAKE_BINARY_DIR}/venv/lib/python3*/site-packages/torch)
  if(torch_candidates)
    list(GET torch_candidates 0 TORCH_ROOT)
  endif()
endif()
