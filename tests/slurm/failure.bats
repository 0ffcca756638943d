#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Steps that end badly: all of the step goes, at once, and the nodes stay in service.
# shellcheck disable=SC2016 # what is quoted is for the shell of a rank
load helper

setup_file() {
  start_cluster failure
  # One script for all: every rank says that it is there; the chosen one acts when all are.
  user sh -c 'cat >ranks.sh; chmod +x ranks.sh' <<'SH'
#!/bin/bash
# usage: ranks.sh RANK ACTION; the other ranks wait for ever
mkdir -p here
touch "here/$SLURM_PROCID"
if [ "$SLURM_PROCID" = "$1" ]; then
  until [ "$(ls here | wc -l)" = "$SLURM_NTASKS" ]; do read -rt 0.1 <> <(:) || true; done
  date +%s >acted
  eval "$2"
fi
exec sleep 1000
SH
}
teardown_file() { stop_clusters; }

setup() { user rm -rf here acted; }

# Ranks that wait, on all nodes: the submit host sees the nodes' processes.
waiting() { root pgrep -fx 'sleep 1000' | wc -l; }

# After every test: nobody left, every node free (not drained, not down).
teardown() {
  eventually 20 all_idle
  [ "$(waiting)" = 0 ]
}

# acts RANK ACTION [SRUN ARGUMENT]...: runs it in a 4+1+1 step and sets `took`, seconds from the
# action to srun's end.
acts() {
  run --separate-stderr user srun -N3 -n6 "${@:3}" ./ranks.sh "$1" "$2"
  took=$(($(date +%s) - $(user cat acted)))
}

# srun's code tells a signal: that of the rank (KILL) or of those it took along (TERM).
killed() { [ "$status" -eq 137 ] || [ "$status" -eq 143 ]; }

@test "a rank killed by SIGKILL ends the step, and the output names node, task and signal" {
  acts 4 'kill -KILL $$' --dist-train
  killed
  [ "$took" -le 10 ]
  # shellcheck disable=SC2154 # set by run
  [[ $stderr == *"node02: task 4: Killed"* ]]
}

@test "rank 0 killed ends the step too" {
  acts 0 'kill -KILL $$' --dist-train
  killed
  [ "$took" -le 10 ]
}

@test "a rank that exits with an error ends the step with its code" {
  acts 5 'exit 3' --dist-train
  [ "$took" -le 10 ]
  [[ $stderr == *"node03: task 5: Exited with exit code 3"* ]]
}

task_5_is_reported() { grep -q 'node03: task 5: Exited with exit code 3' "$BATS_TEST_TMPDIR/out"; }
@test "kill=no and the user's own --kill-on-bad-exit=0 keep the others running" {
  for way in --dist-train=kill=no "--dist-train --kill-on-bad-exit=0"; do
    user rm -rf here acted
    # shellcheck disable=SC2086 # words
    limit=300 user srun -N3 -n6 $way ./ranks.sh 5 'exit 3' >"$BATS_TEST_TMPDIR/out" 2>&1 3>&- &
    srun=$!
    eventually 60 user test -e acted
    # Slurm has noticed the end of its task; the five others go on.
    eventually 20 task_5_is_reported
    [ "$(waiting)" = 5 ]
    root scancel --user="$("$cluster" user)"
    wait $srun || true
    eventually 20 all_idle
  done
}

@test "srun killed by SIGKILL takes the step with it" {
  limit=300 user sh -c 'echo $$ >srun.pid; exec srun -N3 -n6 --dist-train ./ranks.sh 5 true' 3>&- &
  eventually 60 user test -e acted
  root sh -c 'kill -KILL "$(cat srun.pid)"'
  wait || true
}

@test "a program that does not exist is an error, not a hang" {
  run user srun -N3 -n6 --dist-train ./no-such-program
  [ "$status" -ne 0 ]
  [ "$status" -lt 124 ]
  [[ $output == *no-such-program* ]]
}

# Anyone may send the nodes any text past the checks in srun and sbatch.
@test "hostile option text reaches the nodes and does no harm" {
  for text in fspd "$(printf 'a\xff\n%%n')" "$(head -c 60000 /dev/zero | tr '\0' a)" ',,,' 'mode=' ; do
    run user env _SLURM_SPANK_OPTION_dist_train_dist_train="$text" sbatch --wait --output=out --wrap 'echo batch ran; srun -N1 -n1 echo step ran'
    run -0 user cat out
    [[ $output == *"batch ran"* ]]
    # What srun tells the nodes is in variables that a user can set as well; srun's plugin has the last word.
    run -0 user env SLURM_DIST_TRAIN_OPTIONS="$text" SLURM_DIST_TRAIN_BROKER="$text" SLURM_DIST_TRAIN_TOKEN="$text" \
      srun -N2 -n2 --dist-train printenv WORLD_SIZE
    [ "$(uniq <<<"$output")" = 2 ]
  done
}

# What a user reads first is what the first rank said that failed, then Slurm's line for it; peers that
# are ended along with it add a line each at most.
@test "the first rank that fails is read first, and is not drowned by its peers" {
  acts 3 'echo "rank 3: no data file" >&2; exit 5' --dist-train
  [ "$status" -ne 0 ]
  first=$(grep -vE '^srun: (Job step aborted|launch/slurm)|slurmstepd|^$' <<<"$stderr" | head -n 2)
  [ "${first%%$'\n'*}" = "rank 3: no data file" ]
  [[ ${first#*$'\n'} == "srun: error: node01: task 3: Exited with exit code 5" ]]
  [ "$(wc -l <<<"$stderr")" -le 12 ]
}

@test "ranks that fail together, or are killed for memory, never end srun with 0" {
  for action in 'exit 3' 'kill -KILL $$' 'kill -SEGV $$'; do
    run user srun -N3 -n6 --dist-train sh -c "$action"
    [ "$status" -ne 0 ]
    [ "$status" -lt 192 ]
  done
}

# srun's plugin says it, before it answers those who then end.
@test "an error of the plugin's own in rank 0 is what a user reads first, and once" {
  for _ in 1 2 3; do
    run -1 --separate-stderr user srun -N3 -n6 --dist-train=iface=nowhere true
    echo "$stderr"
    first=$(grep -vE '^srun: job [0-9]+ ' <<<"$stderr" | head -n 1) # it may queue behind the one before
    [[ $first == "srun: error: dist-train: node01 (rank 0): no interface of node01 fits iface=nowhere"* ]]
    [ "$(grep -c 'nowhere' <<<"$stderr")" = 1 ]
    [ "$(wc -l <<<"$stderr")" -le 12 ]
  done
}

trapping() { [ "$(user sh -c 'ls here | wc -l')" = 6 ]; }
@test "SIGUSR1 and SIGTERM of scancel reach every rank untouched" {
  for how in "--signal=USR1" "--signal=TERM" "--signal=USR1 --full"; do
    signal=${how#--signal=}
    user rm -rf here got
    user mkdir here got
    user sbatch --parsable -N3 -n6 --output=/dev/null --dist-train --wrap "trap : ${signal%% *}
      srun bash -c 'trap \"touch got/\$RANK; exit 0\" ${signal%% *}; touch here/\$RANK; while :; do sleep 0.1; done'" >"$BATS_TEST_TMPDIR/job"
    eventually 60 trapping
    if [[ $how == *full ]]; then
      # shellcheck disable=SC2086 # words
      user scancel $how "$(cat "$BATS_TEST_TMPDIR/job")"
    else
      user scancel "$how" "$(cat "$BATS_TEST_TMPDIR/job").0"
    fi
    eventually 30 all_idle
    [ "$(user sh -c 'ls got | wc -l')" = 6 ]
  done
}

# opens [SRUN-OPTION]... -- [COMMAND]...: ranks of which each, below the command, opens its step by libstep.
opens() {
  local options=()
  while [ "$1" != -- ]; do options+=("$1"); shift; done
  run ! user env LD_LIBRARY_PATH="$DIST_TRAIN_BUILD/lib" PYTHONPATH="$BATS_TEST_DIRNAME/../../libstep/python" \
    srun -N1 -n2 "${options[@]}" --dist-train "${@:2}" python3 -c 'import libstep; libstep.Step()'
  echo "$output"
}

@test "a task prolog that overwrites our variables is told from the step by libstep" {
  user sh -c 'printf "#!/bin/sh\necho export RANK=0\n" >prolog.sh; chmod +x prolog.sh'
  opens "--task-prolog=$("$cluster" home)/prolog.sh" --
  [[ $output == *"RANK='0' was set by someone after the plugin, which gave rank 1 of 2"* ]]
}

@test "a job's script that takes RANK or WORLD_SIZE away, or makes WORLD_SIZE one too large, is told by libstep" {
  opens -- env -u RANK
  [[ $output == *"RANK is not set"* ]]
  opens -- env -u WORLD_SIZE
  [[ $output == *"WORLD_SIZE is not set"* ]]
  opens -- env WORLD_SIZE=3
  [[ $output == *"has 2 ranks, WORLD_SIZE=3"* ]]
}
