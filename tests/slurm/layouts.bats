#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016 # what is quoted is for the user's shell
# Every way to lay out a step and to start one, where Slurm reserves ports and where srun is asked.
load helper

setup_file() {
  start_cluster reserved
  start_cluster interactive --conf LaunchParameters=use_interactive_step
  start_cluster broker --no-reserved-ports
}
teardown_file() { stop_clusters; }

# both COMMAND...: on the cluster with reserved ports, then on that without.
both() {
  local kind
  for kind in reserved broker; do
    on $kind
    "$@"
  done
}

# hosts NODE...: one line, and so one task, each.
hosts() { user sh -c 'printf "%s\n" "$@" >hosts' - "$@"; }

# job: the user's job script is the text; @REPORT@ stands for the program of the tasks. Two steps that
# wait for a report of each other run at once.
job() {
  { echo '#!/bin/bash' && cat; } | sed "s|@REPORT@|$python $report|g" | user sh -c 'cat >job.sh'
  user sh -c 'rm -rf reports first second'
}

# The steps in the folders first and second differ in this variable of their rank 0.
differ() {
  local home one two
  home=$("$cluster" home)
  for folder in first second; do [ -e "$home/$folder/0.json" ]; done
  one=$(grep -o "\"$1\": \"[^\"]*\"" "$home/first/0.json")
  two=$(grep -o "\"$1\": \"[^\"]*\"" "$home/second/0.json")
  [ "$one" != "$two" ]
}

cyclic() {
  reports srun -N2 -n5 -m cyclic --dist-train=fsdp
  check node01=0,2,3,4 node02=1 # Slurm fills node01's cores first
}
@test "cyclic distribution" { both cyclic; }

plane() {
  reports srun -N3 -n7 -m plane=2 --dist-train
  check node01=0,1,4,5,6 node02=2 node03=3
}
@test "plane distribution" { both plane; }

# Rank 0 runs on the last node, which Slurm's sorted list of nodes does not tell.
arbitrary() {
  hosts node03 node01 node02 node01
  reports env SLURM_HOSTFILE=hosts srun -m arbitrary -n4 --dist-train
  check node03=0 node01=1,3 node02=2
}
@test "arbitrary distribution with rank 0 on the last node" { both arbitrary; }

per_node() {
  reports srun -N3 --ntasks-per-node=2 --dist-train
  check node01=0,1 node02=2,3 node03=4,5
}
@test "only --ntasks-per-node given" { both per_node; }

@test "one task where two per node were possible" {
  [ "${DIST_TRAIN_SLURM:-22.05}" != 26.05 ] || skip "26.05 leaves such a job in the queue, with the option or without"
  on reserved
  reports srun --ntasks=1 --ntasks-per-node=2 --dist-train
  check node01=0
}

@test "2+3+3 tasks all-reduce" {
  on reserved
  hosts node0{1,1,2,2,2,3,3,3}
  limit=$torch_limit run -0 user env SLURM_HOSTFILE=hosts OMP_NUM_THREADS=1 srun -m arbitrary -n8 --dist-train python "$all_reduce"
  [[ $output == *"sum 28 of 8 ranks"* ]]
}

@test "2+1 tasks all-reduce" {
  on broker
  limit=$torch_limit run -0 user salloc -Q -N2 -n3 -m plane=2 srun --dist-train python "$all_reduce"
  [[ $output == *"sum 3 of 3 ranks"* ]]
}

# Slurm counts the ranks of a heterogeneous step per component, and sorts its nodes.
heterogeneous_step() {
  reports srun -N1 -n2 -w node02 --dist-train : -N1 -n1 -w node01
  check node02=0,1 node01=2
}
@test "heterogeneous step whose first node is not the first by name" { both heterogeneous_step; }

heterogeneous_job() {
  job <<'SH'
#SBATCH --dist-train -n3 -w node02,node03
#SBATCH hetjob
#SBATCH -n2 -w node01
srun --het-group=0,1 @REPORT@ reports || exit
srun --het-group=0 @REPORT@ first second/0.json & srun --het-group=1 @REPORT@ second first/0.json && wait $!
SH
  user sbatch --wait --output=out job.sh
  check node02=0,1 node03=2 node01=3,4
  check_in first node02=0,1 node03=2
  check_in second node01=0,1
  differ MASTER_ADDR
}
@test "one step over a heterogeneous job, and one in each of its groups at the same time" {
  both heterogeneous_job
}

on_different_nodes() {
  job <<'SH'
srun -N1 -n2 -w node03 @REPORT@ first second/0.json & srun -N2 -n3 -w node01,node02 -m plane=2 @REPORT@ second first/0.json && wait $!
SH
  user sbatch --wait --output=out --dist-train -N3 --ntasks-per-node=2 job.sh
  check_in first node03=0,1
  check_in second node01=0,1 node02=2
  differ MASTER_ADDR
}
@test "two steps on different nodes of a job at the same time" { both on_different_nodes; }

on_the_last_node() {
  reports salloc -Q -N3 -n6 --ntasks-per-node=2 srun -N1 -n2 --relative=2 --dist-train
  check node03=0,1
}
@test "a step on the last node of the job only" { both on_the_last_node; }

overlapping() {
  job <<'SH'
srun --overlap @REPORT@ first second/0.json & srun --overlap @REPORT@ second first/0.json && wait $!
SH
  user sbatch --wait --output=out --dist-train -N2 -n3 -m plane=2 job.sh
  for folder in first second; do check_in $folder node01=0,1 node02=2; done
  differ MASTER_PORT
}
@test "two steps with --overlap at the same time on the same nodes" { both overlapping; }

# Neither step ends before the other is in its all-reduce.
@test "two steps at the same time on the same nodes all-reduce" {
  on broker
  user rm -f one two
  limit=$torch_limit run -0 --separate-stderr user salloc -Q -N2 -n3 bash -c '
    srun --overlap -n3 --dist-train python "$0" one two & first=$!
    srun --overlap -n3 --dist-train python "$0" two one && wait $first' "$all_reduce"
  [ "$(grep -c '^sum 3 of 3 ranks' <<<"$output")" = 2 ]
  [ "$(grep -o 'port .*' <<<"$output" | sort -u | wc -l)" = 2 ]
}

exact() {
  job <<'SH'
srun --exact -N2 -n3 @REPORT@ first second/0.json & srun --exact -N2 -n2 @REPORT@ second first/0.json && wait $!
SH
  user sbatch --wait --output=out --dist-train -N2 --ntasks-per-node=4 job.sh
  check_in first node01=0,1 node02=2
  check_in second node01=0 node02=1
  differ MASTER_PORT
}
@test "two steps with --exact at the same time on the same nodes" { both exact; }

array() {
  job <<'SH'
if [ "$SLURM_ARRAY_TASK_ID" = 1 ]; then set -- first second/0.json; else set -- second first/0.json; fi
srun @REPORT@ "$@"
SH
  user sbatch --wait --output=out-%a --dist-train --array=1-2 -N2 -n3 -m plane=2 job.sh
  check_in first node01=0,1 node02=2
  check_in second node01=0,1 node02=2
  differ DIST_TRAIN_STEP
  differ MASTER_PORT
}
@test "two jobs of an array at the same time on the same nodes" { both array; }

# Rank 0 of each on one node; without reserved ports from a range of ten blocks.
eight() {
  local i
  job <<SH
srun $python $BATS_TEST_DIRNAME/world.py \$SLURM_ARRAY_TASK_ID 8
SH
  user sh -c 'rm -rf worlds out-*'
  user sbatch --wait --output=out-%a --dist-train=port=23000-23079 --array=0-7 -w node01,node02 -n2 --ntasks-per-node=1 job.sh
  run -0 user sh -c 'cat out-*'
  [ "$(cut -d' ' -f1-2 <<<"$output" | sort)" = "$(for i in $(seq 0 7); do echo "$i/0 $i/1"; done)" ]
  [ "$(cut -d' ' -f3 <<<"$output" | sort -u | wc -l)" = 8 ]
}
@test "eight jobs of an array at the same time on the same nodes: eight worlds" { both eight; }

@test "a step with --pty" {
  on broker
  user rm -rf reports
  # A terminal of its own for srun, which this has not.
  user script -qec "srun --pty -N2 -n3 -m plane=2 --dist-train $python $report reports" /dev/null
  check node01=0,1 node02=2
}

@test "salloc passes the option on to its steps, and its shell has none of the variables" {
  on reserved
  reports salloc -Q -N2 -n2 --dist-train bash -c 'env >shell; exec srun "$@"' -
  check node01=0 node02=1
  [ "$(user grep -cE "$ours" shell)" = 0 ]
}

@test "the interactive step of salloc has none of the variables, the steps inside have" {
  on interactive
  user rm -rf reports
  user script -qec "salloc -Q -N2 -n2 --dist-train" /dev/null <<SH
env >shell; srun $python $report reports; exit
SH
  check node01=0 node02=1
  [ "$(user grep -cE "$ours" shell)" = 0 ]
}

@test "SLURM_DIST_TRAIN at sbatch counts for the steps of the script" {
  on reserved
  job <<'SH'
env >batch
srun @REPORT@ reports
SH
  user env SLURM_DIST_TRAIN=torch sbatch --wait --output=out -N2 -n2 job.sh
  check node01=0 node02=1
  [ "$(user grep -cE "$ours" batch)" = 0 ]
}

without_environment() {
  local names
  for names in NONE FIRST,SECOND; do
    reports env FIRST=1 SECOND=2 RANK=99 srun -N2 -n2 --export=$names --dist-train
    check node01=0 node02=1
  done
  [ "$(reported SECOND)" = 2 ]
}
@test "--export=NONE and --export=NAME,NAME" { both without_environment; }

@test "--preserve-env keeps the job's counts, and ours are the step's" {
  on reserved
  reports salloc -Q -N3 -n6 srun --preserve-env -N2 -n2 --dist-train
  [ "$(reported SLURM_NTASKS)" = 6 ]
  check node01=0 node02=1
}

@test "a step of fewer tasks and nodes than the job's SLURM_NTASKS" {
  on broker
  reports salloc -Q -N3 -n6 srun -N2 -n3 -m plane=2 --dist-train
  check node01=0,1 node02=2
}

nested() {
  # A task of the outer step runs srun; the inner step's ranks replace what it hands down.
  reports salloc -Q -N2 -n4 srun -N2 -n2 --dist-train bash -c '
    [ "$RANK" = 0 ] || exec srun --overlap -N2 -n3 --dist-train "$@"' -
}
@test "srun inside a task of a step: the inner step's own ranks" {
  on broker
  run nested
  check node01=0,2 node02=1
  [ "$(reported DIST_TRAIN_STEP | cut -d. -f2)" = 1 ]
}
