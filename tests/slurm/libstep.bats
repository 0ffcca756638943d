#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# libstep and dist-train exec on a real Slurm: stops that all ranks agree on, the time limit,
# requeueing; the plan of a step without the plugin.
# shellcheck disable=SC2016,SC2154 # for the shell of a job; from the helper
load helper

setup_file() {
  DIST_TRAIN_PLUGIN=/nonexistent start_cluster plain
  start_cluster libstep --conf KillWait=2
}
teardown_file() { stop_clusters; }

setup() {
  on libstep
  user rm -f running out
  loop="$BATS_TEST_DIRNAME/stop_loop.py"
  root=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
  with_libstep="env PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$root/libstep/python \
    DIST_TRAIN_LIBSTEP=$DIST_TRAIN_BUILD/lib/libstep.so.0 python3"
}
teardown() { eventually 30 all_idle; }

is_running() { user test -e running; }
has_ended() { [ -z "$(user squeue -h)" ]; }

# job SBATCH-ARGUMENT... -- WORD: submits the loop as a step of 4+1+1 and waits until it iterates.
submit() {
  local arguments=()
  while [ "$1" != -- ]; do arguments+=("$1"); shift; done
  job=$(user sbatch --parsable -N3 -n6 --open-mode=append --output=out "${arguments[@]}" \
    --wrap "srun ${way-} $with_libstep $loop ${2-}")
  eventually 60 is_running
}

stops_with() {
  eventually 90 has_ended # Slurm looks at time limits every 30 s
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
  submit --time=2 --signal=USR1@110 --
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

# Where the plugin is not installed.
bare() {
  on plain
  exec=("$DIST_TRAIN_BUILD/bin/dist-train" exec --)
}

@test "dist-train exec gives an uneven step the plugin's variables and held ports" {
  bare
  reports srun -N3 -n6 "${exec[@]}"
  run -0 check node01=0,1,2,3 node02=4 node03=5
  reports srun -N3 -n6 --distribution=cyclic "${exec[@]}"
  run -0 check node01=0,3,4,5 node02=1 node03=2
}

@test "an all-reduce needs nothing but dist-train exec" {
  bare
  limit=$torch_limit run -0 user srun -N3 -n3 "${exec[@]}" "$DIST_TRAIN_BUILD/venv/bin/python" "$all_reduce"
  [[ $output == *"sum 3 of 3 ranks, port "* ]]
}

@test "libstep inside of dist-train exec meets at the ports that this holds" {
  bare
  # shellcheck disable=SC2086 # words
  run -0 user srun -N3 -n6 "${exec[@]}" $with_libstep -c 'import libstep, os
with libstep.Step() as step:
    nodes = step.all_gather(os.environ["SLURMD_NODENAME"].encode(), 30)
    assert [step.node_of(r).encode() for r in range(6)] == nodes, nodes
    if step.rank == 0:
        print(b" ".join(nodes).decode(), step.id == os.environ["DIST_TRAIN_STEP"], flush=True)'
  [ "$output" = "node01 node01 node01 node01 node02 node03 True" ]
}

@test "where rank 0 cannot run its program the step ends" {
  bare
  run -127 user srun -N3 -n6 "${exec[@]}" /nonexistent/program
  [[ $output == *"dist-train exec: cannot run '/nonexistent/program': No such file"* ]]
}

@test "dist-train exec takes no options of its own" {
  run -2 "$DIST_TRAIN_BUILD/bin/dist-train" exec --nodes -- true
  [[ $output == *"no such option: '--nodes'"* ]]
  run -2 "$DIST_TRAIN_BUILD/bin/dist-train" exec --
  [[ $output == *"no program"* ]]
}

@test "under the plugin dist-train exec changes nothing" {
  reports srun --dist-train -N3 -n6 "$DIST_TRAIN_BUILD/bin/dist-train" exec --
  run -0 check node01=0,1,2,3 node02=4 node03=5
  [ -n "$(reported DIST_TRAIN_BROKER)" ]
  [[ $(reported DIST_TRAIN_BROKER) != *unset* ]]
}
