#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# libstep on a real Slurm: stops that all ranks agree on, the time limit, requeueing.
# shellcheck disable=SC2016 # what is quoted is for the shell of a job
load helper

setup_file() {
  start_cluster libstep --conf KillWait=2
}
teardown_file() { stop_clusters; }

setup() {
  on libstep
  user rm -f running out
  loop="$BATS_TEST_DIRNAME/stop_loop.py"
  root=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
  python="env PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$root/libstep/python \
    DIST_TRAIN_LIBSTEP=${DIST_TRAIN_BUILD:-$root/build}/lib/libstep.so.0 python3"
}
teardown() { eventually 30 all_idle; }

is_running() { user test -e running; }
has_ended() { [ -z "$(user squeue -h)" ]; }

# job SBATCH-ARGUMENT... -- WORD: submits the loop as a step of 4+1+1 and waits until it iterates.
submit() {
  local arguments=()
  while [ "$1" != -- ]; do arguments+=("$1"); shift; done
  job=$(user sbatch --parsable -N3 -n6 --open-mode=append --output=out "${arguments[@]}" \
    --wrap "srun ${way-} $python $loop ${2-}")
  eventually 60 is_running
}

stops_with() {
  eventually 60 has_ended
  run -0 user cat out
  [[ $output == *"stopped agreed: $1"* ]]
}

@test "a signal to the step stops all ranks at one iteration" {
  for way in --dist-train ""; do
    user rm -f running out
    submit --
    user scancel --signal=USR1 "$job.0"
    stops_with 'SIGUSR1 reached rank '
  done
}

@test "SIGTERM to the step does as well" {
  way=--dist-train
  submit --
  user scancel --signal=TERM "$job.0"
  stops_with 'SIGTERM reached rank '
}

@test "--signal of sbatch reaches the ranks before the time limit" {
  way=--dist-train
  submit --time=2 --signal=USR1@90 --
  stops_with 'SIGUSR1 reached rank '
}

@test "the time limit is known to all ranks" {
  for way in --dist-train ""; do
    user rm -f running out
    submit --time=10 --
    user scancel --signal=USR1 "$job.0"
    stops_with 'SIGUSR1 reached rank '
    left=${output##*seconds left }
    [ "${left%%[!0-9]*}" -gt 500 ]
    [ "${left%%[!0-9]*}" -le 600 ]
  done
}

# After a requeue Slurm keeps the job back for a while; an administrator need not wait for that.
is_pending() { [ "$(user squeue -h -o %t)" = PD ]; }
run_again() {
  eventually 60 is_pending
  root scontrol update job="$(user squeue -h -o %A)" starttime=now
  eventually 60 has_ended
  [ "$(user grep -c 'restart 1' out)" = 6 ]
}

@test "a job requeues itself, and its second run knows" {
  for way in --dist-train ""; do
    user rm -f running out
    submit --requeue -- requeue
    user scancel --signal=USR1 "$job.0"
    run_again
  done
}

@test "a task of an array requeues itself alone" {
  way=--dist-train
  submit --requeue --array=3 -- requeue
  user scancel --signal=USR1 "${job}_3.0"
  run_again
}

@test "a job that may not be requeued is told why" {
  way=--dist-train
  submit --no-requeue -- requeue
  user scancel --signal=USR1 "$job.0"
  eventually 60 has_ended
  run -0 user cat out
  [[ $output == *"cannot requeue the job: scontrol requeue $job: "*disabled* ]]
}
