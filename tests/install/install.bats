#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Builds as a site would, installs into a folder of its own, and uses what lies there. The tests
# build on each other: one build folder, two configurations.
bats_require_minimum_version 1.5.0

setup_file() {
  top=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
  build=$BATS_FILE_TMPDIR/build
  prefix=$BATS_FILE_TMPDIR/prefix
  export top build prefix
  export PKG_CONFIG_PATH=$prefix/lib/pkgconfig LD_LIBRARY_PATH=$prefix/lib
}

# Without optimisation: what is asked here is whether it builds.
configure() {
  cmake -G Ninja -S "$top" -B "$build" -DDIST_TRAIN_TESTS=OFF \
    -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O0 "$@"
}

# needed FILE: the libraries it names.
needed() { readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'; }

@test "plugin, library and command build and install without libtorch" {
  configure -DDIST_TRAIN_TRAINER=OFF -DCMAKE_INSTALL_PREFIX="$prefix" -DCMAKE_INSTALL_LIBDIR=lib \
    -DSLURM_INCLUDE_DIR="$(sed -n 's/^SLURM_INCLUDE_DIR:PATH=//p' "$DIST_TRAIN_BUILD/CMakeCache.txt")" \
    -DSLURM_PLUGIN_DIR="$prefix/lib/slurm" -DCMAKE_INSTALL_SYSCONFDIR="$prefix/etc"
  cmake --build "$build"
  cmake --install "$build"
  [ -e "$prefix/lib/slurm/spank_dist_train.so" ]
  grep -q '^optional.*spank_dist_train.so' "$prefix/etc/slurm/plugstack.conf.d/zz-dist-train.conf"
  [ ! -e "$build/bin/dist-trainer" ]
  [ -z "$(needed "$prefix/lib/slurm/spank_dist_train.so" | grep -E 'step|slurm|torch')" ]
  "$prefix/bin/dist-train" --version
  [ -e "$prefix/share/man/man3/libstep.3" ]
  cmake --install "$build" --prefix "$BATS_TEST_TMPDIR/moved"
  local found
  found=$(PKG_CONFIG_PATH=$BATS_TEST_TMPDIR/moved/lib/pkgconfig pkg-config --variable=includedir libstep)
  [ "$(realpath "$found")" = "$BATS_TEST_TMPDIR/moved/include" ]
  run -0 env -i PYTHONPATH="$prefix/share/libstep" "$(command -v python3)" -c \
    'import libstep; print(libstep.Step().broadcast(b"found its library").decode())'
  [ "$output" = "found its library" ]
}

@test "the README's C program compiles with the README's flags and runs alone and as two ranks" {
  sed -n '/^```c$/,/^```$/{/^```/d;p}' "$top/README.md" >"$BATS_TEST_TMPDIR/program.c"
  # shellcheck disable=SC2046 # several words
  cc -Wall -Werror -o "$BATS_TEST_TMPDIR/program" "$BATS_TEST_TMPDIR/program.c" \
    $(pkg-config --cflags --libs libstep)
  run -0 env -i LD_LIBRARY_PATH="$LD_LIBRARY_PATH" "$BATS_TEST_TMPDIR/program"
  [[ $output == "rank 0 of 1: made by rank 0 on "* ]]
  # What only tells this meeting from others; libstep finds its own port from it.
  local meeting=(env WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$((20000 + $$ % 10000)))
  "${meeting[@]}" RANK=1 "$BATS_TEST_TMPDIR/program" >"$BATS_TEST_TMPDIR/one" &
  run -0 "${meeting[@]}" RANK=0 "$BATS_TEST_TMPDIR/program"
  wait $!
  [[ $output == "rank 0 of 2: made by rank 0 on "* ]]
  [ "$(cut -d: -f2 "$BATS_TEST_TMPDIR/one")" = "$(cut -d: -f2 <<<"$output")" ]
}

@test "an empty folder of plugins is refused with what to give" {
  run ! cmake -S "$top" -B "$BATS_TEST_TMPDIR/build" -DDIST_TRAIN_TESTS=OFF -DDIST_TRAIN_TRAINER=OFF -DSLURM_PLUGIN_DIR= \
    -DSLURM_INCLUDE_DIR="$(sed -n 's/^SLURM_INCLUDE_DIR:PATH=//p' "$DIST_TRAIN_BUILD/CMakeCache.txt")"
  [[ $output == *"SLURM_PLUGIN_DIR is empty"*PluginDir* ]]
}

# The build that runs the other tests has CUDA where this machine has the toolkit.
@test "dist-trainer links without CUDA, and with it where there is a toolkit" {
  local torch
  torch=$(sed -n 's/^TORCH_ROOT:PATH=//p' "$DIST_TRAIN_BUILD/CMakeCache.txt")
  torch=${torch:-$(echo "$DIST_TRAIN_BUILD"/venv/lib/python3*/site-packages/torch)}
  [ -e "$torch/lib/libtorch_cpu.so" ] || skip "no libtorch in '$torch'"
  configure -DDIST_TRAIN_TRAINER=ON -DDIST_TRAIN_CUDA=OFF -DTORCH_ROOT="$torch"
  cmake --build "$build" --target dist-trainer
  needed "$build/bin/dist-trainer" | grep -q torch_cpu
  [ -z "$(needed "$build/bin/dist-trainer" | grep -E 'cuda|nccl')" ]
  "$build/bin/dist-trainer" --help | grep -q -- --learning_rate
  if command -v nvcc || [ -x /usr/local/cuda/bin/nvcc ]; then
    needed "$DIST_TRAIN_BUILD/bin/dist-trainer" | grep -q torch_cuda
    needed "$DIST_TRAIN_BUILD/bin/dist-trainer" | grep -q nccl
    "$DIST_TRAIN_BUILD/bin/dist-trainer" --help | grep -q -- --learning_rate
  fi
}

@test "the source archive has every file once more, and the same bytes each time" {
  git -C "$top" rev-parse 2>/dev/null || skip "not a git checkout"
  mkdir "$BATS_TEST_TMPDIR/one" "$BATS_TEST_TMPDIR/two"
  run -0 "$top/packaging/source" "$BATS_TEST_TMPDIR/one"
  archive=$output
  run -0 "$top/packaging/source" "$BATS_TEST_TMPDIR/two"
  cmp "$archive" "$output"
  [ "$(tar -tf "$archive" | grep -cv '/$')" = "$(git -C "$top" ls-tree -r --name-only HEAD | wc -l)" ]
  tar -xOf "$archive" --wildcards '*/COPYING' | cmp - "$top/COPYING"
}
