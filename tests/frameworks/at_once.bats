#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2030,SC2031,SC2154 # bats and the helper set them; each test is a subshell
# Jobs and steps that are on the same nodes at the same time.
load helper

setup_file() {
  start_cluster broker --nodes 2 --no-reserved-ports
  start_cluster reserved --nodes 2
}

# begin NAME OTHER COMMAND...: a step whose last rank joins when both have a rank 0 that listens.
begin() {
  as_user "${@:4}" "$BATS_TEST_DIRNAME/late.sh" "meet $1 $2" python "$BATS_TEST_DIRNAME/$3" \
    >"$BATS_TEST_TMPDIR/$1" 2>&1 3>&- &
}
# one_world NAME: of the step that began so; sets port, where it meets.
one_world() {
  output=$(cat "$BATS_TEST_TMPDIR/$1")
  echo "$1: $output"
  agree 2
  port=$(sed -n 's/^dist-train: step .* master node01 [^ ]*:\([0-9]*\) .*/\1/p' <<<"$output")
  [ -n "$port" ]
}
two_worlds() {
  local first second=$!
  wait "$1"
  wait "$second"
  one_world one
  first=$port
  one_world two
  [ "$first" != "$port" ]
}

# Without reserved ports from a range with four blocks, so that two jobs often try the same one first. DIST_TRAIN_ROUNDS
# says how often.
@test "two DDP jobs at once on the same nodes, again and again" {
  local round words first
  for round in $(seq "${DIST_TRAIN_ROUNDS:-2}"); do
    words=verbose
    on reserved
    [ $((round % 2)) = 0 ] || { on broker; words+=,port=23000-23031; }
    user rm -f one two
    begin one two ddp.py srun -N2 -n2 "--dist-train=$words"
    first=$!
    begin two one ddp.py srun -N2 -n2 "--dist-train=$words"
    two_worlds $first
  done
}

# The port that JAX makes of the job's number is the same for both.
@test "two JAX steps of a job at once on the same nodes" {
  local job first
  on reserved
  job=$(user salloc --no-shell -N2 -n2 2>&1 | sed -n 's/.*Granted job allocation //p')
  user rm -f one two
  begin one two jax_mesh.py srun "--jobid=$job" --overlap -N2 -n2 --dist-train=jax,verbose
  first=$!
  begin two one jax_mesh.py srun "--jobid=$job" --overlap -N2 -n2 --dist-train=jax,verbose
  two_worlds $first
  user scancel "$job"
}
