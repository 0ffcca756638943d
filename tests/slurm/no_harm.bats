#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Whatever becomes of the plugin, jobs that do not ask for it do not notice, and no node is lost.
# shellcheck disable=SC2016 # what is quoted is for the shell of a task
load helper

setup_file() {
  start_cluster noharm --nodes 2 --conf PrologFlags=Contain --conf LaunchParameters=use_interactive_step
  folder=$("$cluster" folder)
  line=$folder/etc/plugstack.conf.d/zz-dist-train.conf
  plugin=$(awk '/^optional/ { print $2 }' "$line")
  export folder line plugin
  cp "$line" "$folder/line"
  # Everything that a task can see of its surroundings, less what differs from step to step.
  user sh -c 'cat >surroundings.sh; chmod +x surroundings.sh' <<'SH'
#!/bin/bash
env | sed -E 's/^(SLURM_(JOB_?ID|JOB_SLUID|STEP_?ID|TASK_PID|STEP_LAUNCHER_PORT|SRUN_COMM_PORT|STEP_RESV_PORTS|JOB_(START|END)_TIME))=.*/\1/' | sort
ls -l /proc/self/fd | sed -n 's/.* \([0-9]* -> [^0-9[]*\).*/\1/p'
ulimit -aS
ulimit -aH
grep -E '^(Sig(Pnd|Blk|Ign|Cgt)|Shd|Cpus_allowed_list|Groups|NoNewPrivs|Seccomp|Uid)' /proc/self/status
echo to stderr >&2
exit 7
SH
}
teardown_file() { stop_clusters; }

# cover NODE FROM TO: the node ("" for the submit host) alone sees FROM in the place of TO, until
# the next uncover.
cover() {
  covered=(${1:+--node "$1"} -- umount "$3")
  "$cluster" exec ${1:+--node "$1"} -- mount --bind "$2" "$3"
}
uncover() {
  [ ${#covered[@]} -eq 0 ] || "$cluster" exec "${covered[@]}"
  covered=()
}
setup() { covered=(); }
teardown() {
  uncover
  cp "$folder/line" "$line"
  root scancel --user="$("$cluster" user)"
  eventually 20 all_idle
}

# surroundings FILE SRUN ARGUMENT...: of two tasks, sorted, with srun's stderr and code.
surroundings() {
  run --separate-stderr user srun -N2 -n2 --label "${@:2}" ./surroundings.sh
  # shellcheck disable=SC2154 # set by run
  { sort <<<"$output"; sed 's/StepId=[0-9.]*//' <<<"$stderr" | sort; echo "$status"; } >"$1"
  [ "$status" -eq 7 ]
  [ "${#lines[@]}" -gt 50 ]
}

# seconds COMMAND...: how long it takes, in $took.
seconds() {
  took=$SECONDS
  "$@"
  took=$((SECONDS - took))
}

nothing_of_ours() { ! grep -E '^(RANK|WORLD_SIZE|MASTER_|LOCAL_RANK|DIST_TRAIN|SLURM_DIST_TRAIN|SLURM_KILL_BAD_EXIT)' "$1"; }

@test "a step that does not ask has the same variables, descriptors, limits, CPUs, signals, errors and code as without the plugin" {
  surroundings "$BATS_TEST_TMPDIR/with"
  surroundings "$BATS_TEST_TMPDIR/off" --dist-train=off
  : >"$line"
  surroundings "$BATS_TEST_TMPDIR/without"
  diff "$BATS_TEST_TMPDIR/without" "$BATS_TEST_TMPDIR/with"
  diff "$BATS_TEST_TMPDIR/without" "$BATS_TEST_TMPDIR/off"
}

@test "batch, extern and interactive steps of a job that asks are left alone" {
  user sbatch --dist-train --wait -N1 --output=out --wrap 'env >batch; until [ -e go ]; do sleep 0.1; done' 3>&- &
  eventually 20 user test -s batch
  # The extern step's only process.
  run -0 "$cluster" exec --node node01 -- sh -c 'tr "\0" "\n" <"/proc/$(pgrep -fo "sleep 100000000")/environ"'
  nothing_of_ours <(echo "$output")
  user touch go
  wait
  nothing_of_ours "$(user sh -c 'echo $PWD')/batch"
  user sh -c 'echo "env >interactive; srun printenv RANK >rank" | salloc -N1 --dist-train'
  grep -qE '^SLURM_STEP_ID=(4294967290|-6)$' "$(user sh -c 'echo $PWD')/interactive"
  nothing_of_ours "$(user sh -c 'echo $PWD')/interactive"
  [ "$(user cat rank)" = 0 ] # the step in the shell asked, by way of salloc
}

@test "the daemons that mpirun starts in a job that asks are left alone, and so are its ranks" {
  user sh -c 'printf "#!/bin/sh\nenv\n" >orted; chmod +x orted'
  run -0 user sbatch --dist-train --wait -N2 --output=daemons --wrap 'srun --kill-on-bad-exit -N2 -n2 ./orted'
  [ "$(grep -c '^SLURM_PROCID=' "$(user sh -c 'echo $PWD')/daemons")" = 2 ]
  nothing_of_ours "$(user sh -c 'echo $PWD')/daemons"
  run -0 user srun -N2 -n2 --dist-train ./orted # whoever says so gets it
  [ "$(grep -c '^WORLD_SIZE=2' <<<"$output")" = 2 ]
}

@test "--mpi=none, pmi2 and pmix alike" {
  local all="none pmi2 pmix"
  [ "${DIST_TRAIN_SLURM:-22.05}" = 22.05 ] || all="none pmi2" # the other releases come without PMIx
  for mpi in $all; do
    run -0 user srun --mpi=$mpi -N2 -n2 --dist-train sh -c 'echo "$RANK $SLURM_PROCID ${PMI_RANK-} ${PMIX_RANK-}"'
    case $mpi in
      none) expected=$'0 0  \n1 1  ' ;;
      pmi2) expected=$'0 0 0 \n1 1 1 ' ;;
      pmix) expected=$'0 0  0\n1 1  1' ;;
    esac
    [ "$(sort <<<"$output")" = "$expected" ]
  done
}

# spoilt HOW: a plugin's file that is none.
spoilt() {
  local file=$folder/spoilt-$1
  case $1 in
    missing) mkdir -p "$file" ;; # over the folder of plugstack lines
    empty) : >"$file" ;;
    corrupt) head -c 50000 /dev/urandom >"$file" ;;
    other-release)
      cp "$plugin" "$file"
      printf '\0\05\027\0' | dd of="$file" bs=1 conv=notrunc status=none \
        seek=$((0x$(nm -D "$plugin" | awk '$3 == "plugin_version" { print $1 }'))) ;;
  esac
  echo "$file"
}

@test "a plugin that is missing, empty, corrupt or of another release on one node: others run, who asked is told which node" {
  for how in missing empty corrupt other-release; do
    file=$(spoilt $how)
    if [ $how = missing ]; then place=$folder/etc/plugstack.conf.d; else place=$plugin; fi
    cover node02 "$file" "$place"
    run -0 --separate-stderr user srun -N2 -n2 echo runs
    [ "$output" = $'runs\nruns' ]
    seconds run user srun -N2 -n2 --dist-train=wait=2 sleep 1000
    [ "$status" -ne 0 ]
    [ "$took" -le 10 ]
    [[ $output == *"dist-train: node02 did not come within 2 s"* ]]
    [[ $output == *"the plugin may be missing there"* ]]
    uncover
  done
  cover node02 "$folder/spoilt-corrupt" "$plugin"
  run -0 user sbatch --wait -w node02 --output=out --wrap 'echo batch; srun echo step'
  run -0 user cat out # and what Slurm says about such a file
  [[ $output == *batch*step* ]]
}

@test "a plugin that is spoilt on the submit host: jobs start, the option is refused" {
  for how in empty other-release; do
    cover "" "$(spoilt $how)" "$plugin"
    run -0 --separate-stderr user srun -N2 -n2 echo runs
    [ "$output" = $'runs\nruns' ]
    run ! user srun -N2 -n2 --dist-train true
    [[ $output == *dist-train* ]]
    uncover
  done
}

@test "with a plugstack line that says required only the task that asked fails" {
  sed -i 's/^optional/required/' "$line"
  run -0 user srun -N2 -n2 echo runs
  [ "$output" = $'runs\nruns' ]
  run -0 user srun -N2 -n2 --dist-train printenv WORLD_SIZE
  run -1 user srun -N2 -n2 --dist-train=iface=nowhere true
  [[ $output == *nowhere* ]]
  run -0 user sbatch --dist-train --wait --output=out --wrap 'srun printenv RANK'
}

@test "a crash or a hang in the task of a step that asked ends that step alone, with a message" {
  sed -i "s|$plugin|${plugin%/*}/stuck_plugin.so|" "$line"
  for how in segv abort hang; do
    user srun -N2 -n2 echo "another job" >"$BATS_TEST_TMPDIR/other" 3>&- &
    seconds run user env STUCK=$how srun -N2 -n2 --dist-train=wait=2 sh -c 'echo started; sleep 1000'
    [ "$status" -ne 0 ]
    [ "$took" -le 12 ]
    [[ $output != *started* ]]
    case $how in
      segv) [[ $output == *"Segmentation fault"* ]] ;;
      abort) [[ $output == *Aborted* ]] ;;
      hang) [[ $output == *"dist-train: this task is stuck in the plugin and is ended"* ]] ;;
    esac
    wait $!
    [ "$(cat "$BATS_TEST_TMPDIR/other")" = $'another job\nanother job' ]
  done
  # The same plugin, in a step that did not ask.
  run -0 user env STUCK=segv srun -N2 -n2 echo runs
}
