#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# The dist-train command. COMMAND is its path.

setup() {
  rank3=(env -i RANK=3 WORLD_SIZE=4 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 MASTER_ADDR=node01
    MASTER_PORT=29500 "$COMMAND")
}

@test "env tells who this process is, and why" {
  run "${rank3[@]}" env
  [ "$status" -eq 0 ]
  [[ "$output" == *"rank         3 of 4"* ]]
  [[ "$output" == *"local rank   1 of 2"* ]]
  [[ "$output" == *"master       node01:29500"* ]]
  [[ "$output" == *"LOCAL_WORLD_SIZE=2"* ]]
}

@test "env --json is JSON whatever the variables hold" {
  run "${rank3[@]}" env --json
  [ "$status" -eq 0 ]
  python3 -c 'import json, sys
me = json.loads(sys.argv[1])
assert (me["rank"], me["world_size"], me["source"]) == (3, 4, "torchrun"), me
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

@test "help and version" {
  run "$COMMAND" --help
  [ "$status" -eq 0 ]
  [[ "$output" == *"dist-train env [--json]"* ]]
  run "$COMMAND" --version
  [ "$status" -eq 0 ]
  [[ "$output" =~ ^dist-train\ [0-9]+\.[0-9]+\.[0-9]+$ ]]
}
