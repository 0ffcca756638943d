#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# The plugin's file as the loader of a root process meets it.
bats_require_minimum_version 1.5.0

plugin=$DIST_TRAIN_BUILD/lib/spank_dist_train.so

# Code of ours that goes into it; the C++ runtime inside has two tables of its own.
ours() { echo "$DIST_TRAIN_BUILD"/spank/libdist_train_spank.a "$DIST_TRAIN_BUILD"/libstep/libstep_{core,machine}.a; }

setup() {
  grep -q '^DIST_TRAIN_SANITIZE:STRING=$' "$DIST_TRAIN_BUILD/CMakeCache.txt" || skip "built for a sanitizer"
}

# hwloc is a dependency that package managers see; slurmstepd has it, too. libm is a part of libc.
@test "the plugin needs nothing but libc and hwloc" {
  run -0 readelf -dW "$plugin"
  [ "$(sed -n 's/.*(NEEDED).*\[\(.*\)\.so\..*/\1/p' <<<"$output" | grep -Ev '^(ld-linux|libm$)' | sort | paste -sd' ')" = "libc libhwloc" ]
  [[ $output != *RPATH* && $output != *RUNPATH* && $output != *TEXTREL* ]]
}

@test "the plugin is hardened: read-only relocations, bound at load, guarded stacks, no executable stack" {
  run -0 readelf -lW "$plugin"
  [[ $output == *GNU_RELRO* ]]
  grep GNU_STACK <<<"$output" | grep -q ' RW '
  readelf -dW "$plugin" | grep -q BIND_NOW
  nm -D "$plugin" | grep -q __stack_chk_fail
}

@test "nothing of ours runs or is constructed when the plugin is loaded or unloaded, and no thread has variables" {
  # shellcheck disable=SC2046 # two words
  run -0 readelf -SW $(ours)
  [[ $output == *.text* ]]
  [[ $output != *.init_array* && $output != *.fini_array* && $output != *.ctors* ]]
  [[ $output != *.tbss* && $output != *.tdata* ]]
  # shellcheck disable=SC2046
  run -0 nm $(ours)
  [[ $output != *__cxa_atexit* && $output != *__cxa_thread_atexit* && $output != *" U atexit"* ]]
}

# But for scontrol and squeue, which srun's own thread spawns where a program of the step asks.
@test "the plugin starts no program by itself and loads no library" {
  run -0 nm -D --undefined-only "$plugin"
  run -1 grep -E ' U (system|popen|exec[a-z]*|dlopen|exit)@' <<<"$output"
}

# users_of SYMBOL: objects of ours that call it.
users_of() {
  # shellcheck disable=SC2046
  nm -A $(ours) | sed -nE "s/.*:([a-z_]+)\.cpp\.o:.* U ($1)\$/\1/p" | sort -u
}

@test "only the child that reads the machine is forked, and only there the user changes: to the task's" {
  run -0 users_of 'v?fork'
  [ "$output" = in_child ]
  run -0 users_of 'set[a-z]*[ug]id|setgroups'
  [ "$output" = node_machine ]
}
