#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# The dist-train command. COMMAND is its path.
# shellcheck disable=SC2016 # for the shells that exec starts
bats_require_minimum_version 1.5.0

setup() {
  rank3=(env -i RANK=3 WORLD_SIZE=4 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 MASTER_ADDR=node01
    MASTER_PORT=29500 JAX_PROCESS_ID=3 HOME=/ "$COMMAND")
}

@test "env tells who this process is, and why" {
  run "${rank3[@]}" env
  [ "$status" -eq 0 ]
  [[ "$output" == *"rank         3 of 4"* ]]
  [[ "$output" == *"local rank   1 of 2"* ]]
  [[ "$output" == *"master       node01:29500"* ]]
  [[ "$output" == *"LOCAL_WORLD_SIZE=2"* ]]
  [[ "$output" == *"JAX_PROCESS_ID=3"* && "$output" != *HOME* ]]
}

@test "env --json is JSON whatever the variables hold" {
  run "${rank3[@]}" env --json
  [ "$status" -eq 0 ]
  python3 -c 'import json, sys
me = json.loads(sys.argv[1])
assert (me["rank"], me["world_size"], me["source"]) == (3, 4, "variables"), me
assert me["variables"]["MASTER_ADDR"] == "node01", me' "$output"
  run env -i SLURM_ODD=$'a"\\\xff\x01b' "$COMMAND" env --json
  [ "$status" -eq 0 ]
  python3 -c 'import json, sys
assert json.loads(sys.argv[1])["variables"]["SLURM_ODD"] == "a\"\\\xff\x01b"' "$output"
}

@test "the token is not shown" {
  run env -i DIST_TRAIN_TOKEN=0123456789abcdef0123456789abcdef "$COMMAND" env
  [ "$status" -eq 0 ]
  [[ "$output" == *"DIST_TRAIN_TOKEN=(32 digits, hidden)"* ]]
  [[ "$output" != *0123456789abcdef* ]]
}

@test "contradictions go to standard error with exit code 2" {
  run env -i RANK=9 WORLD_SIZE=4 "$COMMAND" env
  [ "$status" -eq 2 ]
  [[ "$output" == *"RANK='9' is not a number from 0 to 3"* ]]
}

@test "unknown words are answered with the nearest right one" {
  run "$COMMAND" evn
  [ "$status" -eq 2 ]
  [[ "$output" == *"unknown command 'evn'; did you mean 'env'?"* ]]
  run "$COMMAND" env --jsno
  [ "$status" -eq 2 ]
  [[ "$output" == *"'--jsno'"* ]]
  run "$COMMAND"
  [ "$status" -eq 2 ]
}

@test "exec becomes the program, alone, with a whole set of variables" {
  run -0 env -i PATH="$PATH" "$COMMAND" exec -- sh -c 'echo "$RANK/$WORLD_SIZE $LOCAL_RANK $MASTER_ADDR $1 $MASTER_PORT $$"' sh 'a  b' 3>&-
  [[ "$output" =~ ^0/1\ 0\ 127\.0\.0\.1\ a\ \ b\ ([0-9]+)\ [0-9]+$ ]]
  [ "${BASH_REMATCH[1]}" -ge 1024 ]
  "$COMMAND" exec -- sh -c 'echo $$; exit 7' >"$BATS_TEST_TMPDIR/pid" 3>&- &
  local code=0
  wait $! || code=$?
  [ "$code" = 7 ]
  [ "$(cat "$BATS_TEST_TMPDIR/pid")" = "$!" ]
}

@test "exec of a program that cannot be run ends as with env(1)" {
  run -127 "$COMMAND" exec -- no-such-program
  [[ "$output" == *"cannot run 'no-such-program': No such file"* ]]
  run -126 "$COMMAND" exec -- /etc/passwd
  [[ "$output" == *"cannot run '/etc/passwd': Permission denied"* ]]
  run -2 "$COMMAND" exec
  run -2 "$COMMAND" exec --json
}

@test "ranks of a launcher that sets bare variables agree, and keep its address and port" {
  local port rank folder=$BATS_TEST_TMPDIR pids=()
  port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("", 0)); print(s.getsockname()[1])')
  for rank in 0 1; do
    env -i PATH="$PATH" RANK=$rank WORLD_SIZE=2 LOCAL_RANK=$rank LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 \
      MASTER_PORT="$port" timeout 60 "$COMMAND" exec -- env >"$folder/$rank" 3>&- &
    pids+=($!)
  done
  for rank in 0 1; do wait "${pids[rank]}"; done
  for name in MASTER_ADDR MASTER_PORT WORLD_SIZE DIST_TRAIN_LAYOUT DIST_TRAIN_STORE DIST_TRAIN_TOKEN; do
    [ "$(grep "^$name=" "$folder/0")" = "$(grep "^$name=" "$folder/1")" ]
    grep -q "^$name=." "$folder/0"
  done
  grep -qx "MASTER_PORT=$port" "$folder/0"
  grep -qx RANK=1 "$folder/1"
  grep -q '^DIST_TRAIN_PORT_FD=' "$folder/0"
  run -1 grep '^DIST_TRAIN_.*_FD=' "$folder/1"
}

@test "exec under torchrun leaves its variables as they are" {
  run -0 env -i PATH="$PATH" TORCHELASTIC_RUN_ID=r TORCHELASTIC_USE_AGENT_STORE=True RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 \
    MASTER_PORT=1 "$COMMAND" exec -- env
  [[ "$output" == *TORCHELASTIC_USE_AGENT_STORE=True* && "$output" == *MASTER_PORT=1* ]]
  [[ "$output" != *DIST_TRAIN_* ]]
}

@test "convert writes a script, or says in which line the manifest is wrong" {
  cd "$BATS_TEST_TMPDIR"
  local job='apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: job}
spec: {pytorchReplicaSpecs: {Worker: {template: {spec: {containers: [{image: i, command: [run, %s]}]}}}}}'
  # shellcheck disable=SC2059 # the format is above
  printf "$job" '"a b"' >good.yaml
  run -0 --separate-stderr "$COMMAND" convert --no-container good.yaml
  [[ $output == *$'\n'"  run 'a b'" && -z $stderr ]]
  bash -n <<<"$output"
  # shellcheck disable=SC2059
  printf "$job" 8 >bad.yaml
  run -1 --separate-stderr "$COMMAND" convert bad.yaml
  [[ -z $output && $stderr == "dist-train convert: bad.yaml:4:96: command wants texts, not a number ('8')"* ]]
  run -1 "$COMMAND" convert nowhere.yaml
  [[ $output == *"cannot read 'nowhere.yaml': No such file"* ]]
  run -1 "$COMMAND" convert .
  [[ $output == *"cannot read '.': Is a directory"* ]]
  run -1 "$COMMAND" convert /dev/zero
  [[ $output == *"/dev/zero: more than 1 MiB"* ]]
  run -1 sh -c '"$1" convert good.yaml >/dev/full' sh "$COMMAND"
  [[ $output == *"cannot write: No space left"* ]]
  run -2 "$COMMAND" convert
  run -2 "$COMMAND" convert good.yaml bad.yaml
  run -2 "$COMMAND" convert --no-contianer good.yaml
  [[ $output == *"did you mean '--no-container'?"* ]]
}

@test "help and version" {
  run "$COMMAND" --help
  [ "$status" -eq 0 ]
  [[ "$output" == *"dist-train env [--json]"* ]]
  run "$COMMAND" --version
  [ "$status" -eq 0 ]
  [[ "$output" =~ ^dist-train\ [0-9]+\.[0-9]+\.[0-9]+$ ]]
  for command in env exec topo plan convert; do
    run -0 --separate-stderr "$COMMAND" "$command" --help
    [[ $output == "  dist-train $command "* && $output != *$'\n  dist-train '* && -z $stderr ]]
    own=$output
    run -0 "$COMMAND" "$command" -h
    [ "$output" = "$own" ]
  done
  [[ $own == *"--no-container "* ]]
}
