#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016,SC2154 # what is quoted is for a task's shell; what helper and run set
# Ports that others have, and an srun that nodes cannot reach or that is slow, dead or beset.
load helper

setup_file() {
  start_cluster reserved --nodes 2 --gpus 0 --conf MpiParams=ports=12000-12001 # one step's
  start_cluster broker --gpus 0 --no-reserved-ports
}
teardown_file() { stop_clusters; }

setup() { on broker; }
teardown() {
  release
  on broker
  end_waiting
  root scancel --user="$("$cluster" user)"
  for kind in reserved broker; do
    on $kind
    open_ways
    eventually 20 all_idle
  done
}

at() { "$cluster" exec --node "$1" -- "${@:2}"; }

# occupy NODE ADDRESS PORTS HOW [FLAG]...: see occupy.py. Until `release`.
occupy() {
  local ready
  ready=$("$cluster" folder)/occupied
  at "$1" "$python" "$BATS_TEST_DIRNAME/occupy.py" "$ready" "${@:2}" 3>&- &
  eventually 20 test -e "$ready"
  occupied_at=$1
}
release() {
  [ -n "${occupied_at:-}" ] || return 0
  at "$occupied_at" kill "$(cat "$("$cluster" folder)/occupied")"
  wait
  rm "$("$cluster" folder)/occupied"
  occupied_at=
}

# Four blocks of ports; the tests take the first three.
range=23000-23031
last_block=23024

# succeeds PORT: a step of 2+1 tasks in the range meets at this port.
succeeds() {
  reports srun -N2 -n3 --dist-train=port=$range
  run -0 check node01=0,1 node02=2
  [[ $output == "master 10.77.0.1 $1" ]]
}

# fails SECONDS COMMAND...: it ends with an error within the time, not by a signal.
fails() {
  local begin=$SECONDS
  run --separate-stderr user "${@:2}"
  [ "$status" -ne 0 ]
  [ "$status" -lt 124 ]
  [ $((SECONDS - begin)) -le "$1" ]
}

@test "ports that another program listens on, whatever its address and options: the step takes others" {
  # In turn the framework's port, libstep's, JAX's and a spare one.
  local kind blocks
  for kind in '127.0.0.1 0 listen' '10.77.0.1 1 listen SO_REUSEADDR' ':: 2 listen SO_REUSEADDR SO_REUSEPORT' \
    '0.0.0.0 5 listen SO_REUSEPORT'; do
    # shellcheck disable=SC2086 # words
    set -- $kind
    blocks=$((23000 + $2)),$((23008 + $2)),$((23016 + $2))
    occupy node01 "$1" "$blocks" "${@:3}"
    succeeds $last_block
    release
  done
}

@test "ports that another program holds without listening: the step takes others" {
  occupy node01 :: 23000,23008,23016 hold SO_REUSEADDR
  succeeds $last_block
}

@test "ports taken on another node than rank 0's do not matter" {
  occupy node02 :: 23000,23008,23016,23024 listen
  reports srun -N2 -n3 --dist-train=port=$range
  check node01=0,1 node02=2
}

@test "no free port in the range: an error with the range and the last reason, at once" {
  occupy node01 :: 23000,23009,23018,23024 listen
  fails 10 srun -N2 -n3 --dist-train=port=$range true
  [[ $stderr == *"node01 (rank 0): no free ports for rank 0 in 23000-23031"*"Address already in use"* ]]
  [ "$(grep -c 'no free ports' <<<"$stderr")" = 1 ]
}

@test "two jobs on a node that have two blocks between them" {
  occupy node01 :: 23000,23008 listen
  user rm -rf first second
  srun="srun -w node01 -n2 --dist-train=port=$range $python $report"
  user sh -c "$srun first second/0.json & $srun second first/0.json && wait \$!"
  run -0 check_in first node01=0,1
  first=$output
  run -0 check_in second node01=0,1
  [ "$(sort <<<"$first
$output")" = "master 10.77.0.1 23016
master 10.77.0.1 23024" ]
}

@test "two jobs on a node whose user exports one MASTER_PORT for both: each has its own, and is told" {
  user rm -rf first second
  srun="srun -w node01 -n2 --dist-train $python $report"
  run -0 --separate-stderr user sh -c "export MASTER_PORT=29500; $srun first second/0.json & $srun second first/0.json && wait \$!"
  [ "$(grep -c "MASTER_PORT is .*, not your '29500' (env=keep keeps yours)" <<<"$stderr")" = 2 ]
  run -0 check_in first node01=0,1
  first=$output
  run -0 check_in second node01=0,1
  [ "$first" != "$output" ]
  run -0 --separate-stderr user env MASTER_PORT=29500 srun -n2 --dist-train=env=keep printenv MASTER_PORT
  [ "$(sort -u <<<"$output")" = 29500 ]
  [ "$stderr" = "" ]
}

@test "a port= range among those of outgoing connections: a warning" {
  run -0 --separate-stderr user srun --dist-train=port=40000-40999 true
  [[ $stderr == *"port=40000-40999 overlaps the ports of outgoing connections"* ]]
  run -0 --separate-stderr user srun --dist-train true
  [ "$stderr" = "" ]
}

@test "another program has the reserved port: an error with the port and how to find the program" {
  on reserved
  occupy node01 127.0.0.1 12000 listen SO_REUSEADDR
  fails 10 srun -N2 -n2 --dist-train true
  [[ $stderr == *"node01 (rank 0): cannot bind port 12000: Address already in use"*"ss -ltnp"* ]]
  [ "$(grep -c 'port 12000' <<<"$stderr")" = 1 ]
}

@test "a held port outlives two exec; other programs do not get it, the server does" {
  user sh -c 'rm -f tried; cat >held.sh' <<'SH'
if [ "$RANK" = 0 ]; then
  exec sh -c 'exec sh -c "until [ -e tried ]; do sleep 0.1; done"'
fi
exec python3 -c '
import os, pathlib, socket
def can_listen(flags):
    with socket.socket() as s:
        for flag in flags:
            s.setsockopt(socket.SOL_SOCKET, flag, 1)
        try:
            s.bind(("", int(os.environ["MASTER_PORT"])))
            s.listen()
            return True
        except OSError:
            return False
print(can_listen([]), can_listen([socket.SO_REUSEPORT]), can_listen([socket.SO_REUSEADDR]))
pathlib.Path("tried").touch()'
SH
  run -0 user srun -n2 --dist-train sh held.sh
  [ "$output" = "False False True" ]
}

# The broker's listener is the one on srun's host that takes IPv6 too.
broker_port() { root ss -ltnH | awk '{ print $4 }' | sed -n 's/^\(\*\|\[::\]\)://p' | head -n 1; }
listens() { [ -n "$(broker_port)" ]; }

# walled HOW NODES COMMAND...: a step of which these nodes cannot reach srun's plugin, while Slurm's own
# connections pass. HOW: `refuse` as a firewall that says so, `swallow` as one that drops packets.
# Sets status, stderr and took (seconds). COMMAND is held until the way to its port is closed.
walled() {
  local node port begin held
  user "${@:3}" >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err" 3>&- &
  held=$!
  eventually 20 listens
  port=$(broker_port)
  for node in $2; do
    at "$node" ip rule add to 10.77.0.254 ipproto 6 dport "$port" lookup 100 # TCP: small systems do not know the name
    case $1 in
      refuse) at "$node" ip route replace prohibit default table 100 ;;
      swallow)
        at "$node" ip neigh replace 10.77.0.77 lladdr 02:00:00:00:00:77 dev eth0 nud permanent
        at "$node" ip route replace default via 10.77.0.77 dev eth0 table 100
        ;;
    esac
  done
  begin=$SECONDS
  eventually 20 release_job
  status=0
  wait $held || status=$?
  took=$((SECONDS - begin))
  stderr=$(cat "$BATS_TEST_TMPDIR/err")
  open_ways
}
release_job() { local job && job=$(root squeue -h -t PD -o %i) && [ -n "$job" ] && root scontrol release "$job"; }
open_ways() {
  local node
  for node in node01 node02 node03; do
    [ -e "$("$cluster" folder)/$node" ] || continue
    at $node sh -c 'ip rule del table 100; ip route flush table 100' 2>/dev/null || true
  done
}

# A layout that a node can compute alone: since 26.05 block, the default, is none.
alone() { [ "${DIST_TRAIN_SLURM:-22.05}" != 26.05 ] || echo "--distribution=plane=$1"; }

# The same for a step that starts: of 2+1 tasks, within seconds.
starts_walled() {
  user rm -rf reports
  # shellcheck disable=SC2046 # one word or none
  walled "$1" "$2" srun --hold -N2 -n3 $(alone 2) --dist-train "$python" "$report" reports reports/2.json
  echo "$stderr; $took s"
  [ "$status" -eq 0 ]
  [ "$took" -le 15 ]
  check node01=0,1 node02=2
}
@test "no node reaches srun: the step starts all the same" {
  starts_walled refuse 'node01 node02'
  starts_walled swallow 'node01 node02'
}
@test "rank 0's node does not reach srun: the step starts all the same" { starts_walled swallow node01; }
@test "another node does not reach srun: the step starts all the same" { starts_walled swallow node02; }

@test "no node reaches srun, with reserved ports: the step starts all the same" {
  on reserved
  user rm -rf reports
  # shellcheck disable=SC2046 # one word or none
  walled swallow 'node01 node02' srun --hold -N2 -n2 $(alone 1) --dist-train "$python" "$report" reports reports/1.json
  [ "$status" -eq 0 ]
  [ "$took" -le 15 ]
  check node01=0 node02=1
}

@test "no node reaches srun, and rank 0's first port is taken: both ends are named, in seconds" {
  # All blocks but one, so that the first of the sequence is free for one step in four.
  occupy node01 :: 23001,23009,23017 listen
  until
    user rm -rf reports
    walled refuse 'node01 node02' srun --hold -N2 -n3 --dist-train=port=$range "$python" "$report" reports reports/2.json
    [ "$status" -ne 0 ]
  do check node01=0,1 node02=2; done
  echo "$stderr; $took s"
  [ "$status" -ne 0 ]
  [ "$took" -le 15 ]
  [[ $stderr == *"node01 (rank 0): cannot tell the other ranks where it is: cannot connect to 10.77.0.254:"* ]]
}

@test "a layout that only srun knows, and no node reaches it: an error that says so, in seconds" {
  user sh -c 'printf "node02\nnode01\n" >hosts'
  local way
  for way in refuse swallow; do
    walled $way 'node01 node02' env SLURM_HOSTFILE=hosts srun --hold -m arbitrary -n2 --dist-train true
    echo "$stderr; $took s"
    [ "$status" -ne 0 ]
    [ "$took" -le 15 ]
    [[ $stderr == *"cannot connect to 10.77.0.254:"* ]]
  done
}

@test "a layout that only srun knows, and rank 0's node alone does not reach it: the step ends in seconds" {
  user sh -c 'printf "node01\nnode02\n" >hosts'
  walled swallow node01 env SLURM_HOSTFILE=hosts srun --hold -m arbitrary -n2 --dist-train true
  echo "$stderr; $took s"
  [ "$status" -ne 0 ]
  [ "$took" -le 15 ]
  [[ $stderr == *"node01 (rank 0): cannot tell the other ranks where it is: cannot connect to 10.77.0.254:"* ]]
}

# Slurm's own ports are open, as is srun's; between the nodes those of a step are not.
@test "a firewall between the nodes swallows the ports of steps: the node that has no way to rank 0 says so, in seconds" {
  local kind
  for kind in reserved broker; do
    on $kind
    at node02 ip neigh replace 10.77.0.77 lladdr 02:00:00:00:00:77 dev eth0 nud permanent
    at node02 ip rule add to 10.77.0.1 ipproto 6 dport 12000-27999 lookup 100
    at node02 ip route replace default via 10.77.0.77 dev eth0 table 100
    local begin=$SECONDS
    run --separate-stderr user srun -N2 -n2 --dist-train=wait=3 sleep 1000
    echo "$status $stderr"
    [ "$status" -ne 0 ]
    [ $((SECONDS - begin)) -le 25 ]
    [ "$(grep -c 'node02 (rank 1): no way to rank 0 on node01: cannot connect to 10.77.0.1:.*timed out' <<<"$stderr")" = 1 ]
    [[ $stderr == *'(a firewall?)'* ]]
  done
}

# A step that waits, because node03's slurmd does: begin_waiting starts it, end_waiting lets it go on.
begin_waiting() {
  user sh -c 'rm -rf reports; printf "node02\nnode01\nnode03\n" >hosts'
  at node03 sh -c 'kill -STOP $(pidof slurmd)'
  user env SLURM_HOSTFILE=hosts sh -c 'echo $$ >srun.pid; exec srun -m arbitrary -n3 --dist-train "$@"' \
    - "$python" "$report" reports >"$BATS_TEST_TMPDIR/out" 2>&1 3>&- &
  waiting=$!
  eventually 20 been_asked # and is again and again
}
been_asked() { listens && root ss -tanH state time-wait "( sport = :$(broker_port) )" | grep -q .; }
srun_signal() { root sh -c 'kill -"$0" $(cat srun.pid)' "$1"; }
end_waiting() { at node03 sh -c 'kill -CONT $(pidof slurmd)'; }
all_met() {
  wait $waiting
  check node02=0 node01=1 node03=2
}

@test "srun is stopped while nodes ask it, and goes on: so does the step" {
  begin_waiting
  srun_signal STOP
  # Questions that wait in the kernel's queue.
  eventually 20 questions_wait
  end_waiting
  srun_signal CONT
  all_met
}
questions_wait() { [ "$(root ss -ltnH "( sport = :$(broker_port) )" | awk '{ print $2 }')" -gt 0 ]; }

@test "a step is cancelled while its nodes ask srun: their tasks are gone in seconds" {
  begin_waiting
  [ "$(root pgrep -cx dist-train)" = 2 ]
  root scancel --user="$("$cluster" user)"
  eventually 10 none_asks
  end_waiting
  wait $waiting || true
  eventually 20 no_tasks
}
none_asks() { ! root pgrep -x dist-train >/dev/null; }

@test "srun is killed while nodes ask it: the tasks are gone in seconds" {
  begin_waiting
  srun_signal KILL
  wait $waiting || true
  end_waiting
  eventually 20 all_idle
  eventually 20 no_tasks
}
no_tasks() { ! root pgrep -x slurmstepd >/dev/null; }

@test "srun's port flooded by silent connections, garbage and wrong tokens: the step starts" {
  begin_waiting
  "$cluster" exec -- "$python" - 10.77.0.254 "$(broker_port)" "$("$cluster" folder)/flooded" >&2 3>&- <<'PY' &
import os, resource, socket, sys, time
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
open_ones = []
end = time.monotonic() + 60
count = 0
while time.monotonic() < end and not os.path.exists(sys.argv[3] + ".end"):
    try:
        s = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=1)
        if count % 3 == 0:
            s.sendall(os.urandom(6400))  # longer than a report
        elif count % 3 == 1:
            s.sendall(b"GET / HTTP/1.0\r\n\r\n")
        open_ones.append(s)
    except OSError:
        time.sleep(0.01)
    count += 1
    if count == 700:
        open(sys.argv[3], "w").close()
    if len(open_ones) > 1000:
        open_ones.pop(0).close()
PY
  flood=$!
  eventually 40 test -e "$("$cluster" folder)/flooded"
  end_waiting
  begin=$SECONDS
  all_met
  [ $((SECONDS - begin)) -le 30 ]
  touch "$("$cluster" folder)/flooded.end"
  wait $flood
}
