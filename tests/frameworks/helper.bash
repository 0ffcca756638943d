# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # read by helper.bash of the Slurm tests; bats sets output and stderr
# Shared by the .bats files: one cluster of two nodes a file, and programs of users on it in each layout.
load ../slurm/helper
limit=600 # four imports of a large framework on a busy machine; those that hang do so for half an hour

setup_file() { start_cluster "$(basename "$BATS_TEST_FILENAME" .bats)" --nodes 2; }
teardown_file() { stop_clusters; }

# as_user [NAME=VALUE]... COMMAND...: without the network, as those are without GPUs who run this, and without the
# threads of a node that calculates alone.
as_user() { user env HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1 "$@"; }

even=(srun -N2 --ntasks-per-node=2)
uneven=(srun -N2 -n3) # two tasks on the first node, one on the second

# agree WORLD: in $output every rank of one world of that size said, once, that its numbers are those of one process
# (agree.py). A program that silently trains in worlds of one says so too, of other worlds.
agree() {
  local said
  said=$(sed -n 's/^.*\(rank [0-9]* of [0-9]*\): agrees$/\1/p' <<<"$output" | sort)
  diff <(seq -f "rank %.0f of $1" 0 $(($1 - 1))) <(echo "$said") || { echo "$output"; return 1; }
}

# trains [MODE] PROGRAM [ARGUMENT]...: a Python program of this folder, in both layouts.
trains() {
  local mode=torch
  [[ $1 == *.py ]] || { mode=$1; shift; }
  run -0 as_user "${even[@]}" "--dist-train=$mode" python "$BATS_TEST_DIRNAME/$1" "${@:2}"
  agree 4
  run -0 as_user "${uneven[@]}" "--dist-train=$mode" python "$BATS_TEST_DIRNAME/$1" "${@:2}"
  agree 3
}

# refuses TEXT COMMAND...: the step ends before its program starts, and one line, of us, that has the text says why.
refuses() {
  local said
  run ! --separate-stderr as_user "${@:2}"
  said=$(grep 'dist-train: ' <<<"$stderr" || true)
  if [ -n "$output" ] || [[ $said == *$'\n'* || $said != *"$1"* ]]; then
    echo "$output$stderr"
    return 1
  fi
}
