#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# What other users, and hostile text, can do to root's processes and to a step: nothing.
# shellcheck disable=SC2016 # what is quoted is for the shell of a task
load helper

setup_file() {
  start_cluster security --nodes 2
  folder=$("$cluster" folder)
  home=$("$cluster" home)
  line=$folder/etc/plugstack.conf.d/zz-dist-train.conf
  export folder home line
}
teardown_file() { stop_clusters; }
teardown() {
  root scancel --user="$("$cluster" user)"
  eventually 20 all_idle
}

stranger_on() { "$cluster" exec --node "$1" --user stranger -- timeout "${limit:-60}" "${@:2}"; }

# Kilobytes of the slurmstepd of a batch job whose option is $1.
slurmstepd_size() {
  user env _SLURM_SPANK_OPTION_dist_train_dist_train="$1" sbatch --wait -w node01 --output=size \
    --wrap 'sed -n "s/^VmHWM:[^0-9]*\([0-9]*\).*/\1/p" /proc/$PPID/status' >&2
  user cat size
}

@test "hostile option text costs slurmstepd no memory" {
  huge=$(head -c 100000 /dev/zero | tr '\0' a)
  with=$(slurmstepd_size "$huge")
  short=$(slurmstepd_size "ddp")
  mv "$line" "$line.off"
  without=$(slurmstepd_size "$huge")
  mv "$line.off" "$line"
  echo "slurmstepd: $with KiB with the plugin and huge text, $short with ddp, $without without the plugin"
  [ $((with - without)) -le 1024 ]
}

# What root opens in the life of a step, on node01.
root_opens() {
  "$cluster" exec --node node01 -- sh -c 'exec strace -f -o "$0" -e trace=execve,clone,clone3,fork,vfork,openat,open,creat,socket,setuid,setresuid,setreuid -p "$(pgrep -xo slurmd)"' "$folder/trace" 2>"$folder/strace.out" &
  tracer=$!
  eventually 20 grep -q attached "$folder/strace.out"
  user srun -w node01 -n2 "$@"
  eventually 20 all_idle
  "$cluster" exec --node node01 -- pkill -INT -x strace
  wait $tracer || true
  python3 "$BATS_TEST_DIRNAME/root_files.py" "$folder/trace"
}

@test "as root the plugin opens no file and no socket, whatever the step asks" {
  command -v strace || skip "no strace"
  root_opens true >"$BATS_TEST_TMPDIR/plain"
  root_opens --dist-train=verbose,iface=eth0 true >"$BATS_TEST_TMPDIR/asked"
  mv "$line" "$line.off"
  root_opens true >"$BATS_TEST_TMPDIR/without"
  mv "$line.off" "$line"
  grep -q spank_dist_train.so "$BATS_TEST_TMPDIR/plain"
  diff "$BATS_TEST_TMPDIR/plain" "$BATS_TEST_TMPDIR/asked"
  # The plugin itself and its line; nothing else.
  run diff "$BATS_TEST_TMPDIR/without" "$BATS_TEST_TMPDIR/plain"
  [ -z "$(grep '^[<>]' <<<"$output" | grep -vE 'spank_dist_train.so|zz-dist-train.conf|plugstack')" ]
}

# world SECONDS: two ranks that meet in the store as soon as the file `meet` is there.
begin_world() {
  user sh -c 'rm -f meet leave env.* ; cat >world.py' <<'PY'
import os, time
import libstep
with open(f"env.{os.environ['RANK']}.new", "w") as file:
    print(os.environ["DIST_TRAIN_STORE"], os.environ["DIST_TRAIN_TOKEN"], file=file)
os.rename(f"env.{os.environ['RANK']}.new", f"env.{os.environ['RANK']}")
while not os.path.exists("meet"):
    time.sleep(0.05)
begin = time.monotonic()
step = libstep.Step()
step.barrier(30)
print("met in", round(time.monotonic() - begin, 1), flush=True)
while not os.path.exists("leave"):
    time.sleep(0.05)
step.barrier(30)
PY
  user env PYTHONPATH="$BATS_TEST_DIRNAME/../../libstep/python" LD_LIBRARY_PATH="$DIST_TRAIN_BUILD/lib" \
    srun -N2 -n2 --dist-train python3 world.py >"$BATS_TEST_TMPDIR/world" 2>&1 3>&- &
  world=$!
  eventually 30 test -e "$home/env.0" -a -e "$home/env.1"
}

@test "another user of the node sees no token, and neither joins nor stops the store" {
  begin_world
  read -r store token <"$home/env.0"
  [ ${#token} -eq 32 ]
  for node in node01 node02; do
    run stranger_on $node sh -c 'cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr "\0" "\n"'
    [[ $output == *slurmd* ]]
    [[ $output != *"$token"* ]]
  done
  run "$cluster" exec --user stranger -- sh -c 'cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr "\0" "\n"'
  [[ $output == *srun* ]]
  [[ $output != *"$token"* ]]
  touch "$folder/attack"
  stranger_on node02 python3 "$BATS_TEST_DIRNAME/stranger.py" "${store%:*}" "${store##*:}" "$folder/attack" >"$BATS_TEST_TMPDIR/closed" 3>&- &
  attack=$!
  eventually 20 grep -q begun "$BATS_TEST_TMPDIR/closed" # its connections wait when rank 0 begins to serve
  user touch meet
  eventually 30 grep -q "closed" "$BATS_TEST_TMPDIR/closed"
  user touch leave
  wait $world || { cat "$BATS_TEST_TMPDIR/world"; false; }
  rm "$folder/attack"
  wait $attack
  [ "$(grep -c '^met in [0-9]\.' "$BATS_TEST_TMPDIR/world")" = 2 ]
}

@test "the held sockets are seen in the task, in a forked data loader and after an exec in new namespaces; one that is spawned does no harm" {
  run -0 user srun -N1 -n1 --dist-train python3 "$BATS_TEST_DIRNAME/held_sockets.py" forks spawns
  [[ $output == held* ]]
  run -0 user srun -N1 -n1 --dist-train unshare --map-root-user --mount --pid --fork --mount-proc \
    python3 "$BATS_TEST_DIRNAME/held_sockets.py" same
  [[ $output == held* ]]
}
