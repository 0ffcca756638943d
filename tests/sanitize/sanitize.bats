#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Plugin and libstep once more, built with AddressSanitizer and UndefinedBehaviorSanitizer, under
# their own tests: also under those that let every call fail.
bats_require_minimum_version 1.5.0

setup_file() {
  top=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
  build=$DIST_TRAIN_BUILD/sanitize # kept: the next run builds what has changed
  export top build UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
  cmake -G Ninja -S "$top" -B "$build" -DDIST_TRAIN_TRAINER=OFF -DDIST_TRAIN_SANITIZE=address,undefined \
    -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG="-O1 -g1"
  cmake --build "$build" --target plugin_tests unit_tests
}

@test "the plugin's tests under the sanitizers" {
  nm -D "$build/lib/spank_dist_train.so" | grep -q __asan_init
  "$build/bin/plugin_tests"
}

@test "the unit tests under the sanitizers" { "$build/bin/unit_tests"; }
