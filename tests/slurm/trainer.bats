#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# dist-trainer as a job step: what a user sees when input is bad, or a rank dies.
load helper

setup_file() {
  start_cluster trainer
  venv=$DIST_TRAIN_BUILD/venv
  work=$("$cluster" home)/trainer
  export venv work
  user mkdir -p "$work"
  "$venv/bin/python" "$BATS_TEST_DIRNAME/tiny_model.py" "$DIST_TRAIN_BUILD/models/smollm2-135m" "$work/tiny"
  head -n 40 "$DIST_TRAIN_BUILD/data/train.jsonl" >"$work/train.jsonl"
  chmod -R a+rX "$work"
}

teardown_file() { stop_clusters; }

setup() { out=$work/out-$BATS_TEST_NUMBER; }

# train ARGUMENT...: four ranks, 2+1+1, on the tiny model; sets $status, $output and $took.
train() {
  local start=$SECONDS
  run user srun -N3 -n4 --dist-train=fsdp dist-trainer --model_name_or_path="$work/tiny" \
    --train_file="$work/train.jsonl" --block_size=64 --max_steps=2 --output_dir="$out" "$@"
  took=$((SECONDS - start))
}

# refused TEXT...: one error from one rank, naming TEXT; everyone gone in time.
refused() {
  echo "$output"
  [ "$status" -ne 0 ]
  [ "$took" -le 30 ] # with their start; a rank that was not told would wait for minutes
  [ "$(grep -c '^dist-trainer: error:' <<<"$output")" -eq 1 ]
  local text
  for text in "$@"; do grep -qF -- "$text" <<<"$output"; done
  ! pgrep -f -- "--output_dir=$out"
}

@test "four ranks train, log and export a model that transformers loads" {
  train
  echo "$output"
  [ "$status" -eq 0 ]
  [ "$(grep -c '"loss"' "$out/metrics.jsonl")" -ge 1 ]
  "$venv/bin/python" "$BATS_TEST_DIRNAME/../load_model.py" "$out/hf" "$work/train.jsonl"
}

# under LAUNCHER_AND_ITS_WORDS: two ranks, and whose they are is said.
under() {
  # shellcheck disable=SC2086 # words
  run -0 user $1 dist-trainer --model_name_or_path="$work/tiny" --train_file="$work/train.jsonl" \
    --block_size=64 --max_steps=2 --output_dir="$out"
  [[ $output == *"2 on 1 node (${1%%[. ]*} ("* ]]
  [ "$(grep -c '"loss"' "$out/metrics.jsonl")" -ge 1 ]
}

@test "the same program under torchrun, which it names" {
  under "torchrun --no-python --nproc_per_node=2"
}

@test "the same program under mpirun, which it names" {
  need_mpirun
  under "mpirun.openmpi --oversubscribe -n 2"
}

@test "a name that does not exist in the configuration file" {
  printf '{\n  // a comment\n  "learning_rte": 1e-4\n}\n' >"$work/config.json"
  train "$work/config.json"
  refused "config.json:3" "learning_rte" "learning_rate"
}

@test "a name that does not exist on the command line" {
  train --learning_rte=1e-4
  refused "learning_rte" "learning_rate"
}

@test "a safetensors file that was cut short" {
  mkdir -p "$work/cut" && cp "$work"/tiny/* "$work/cut/"
  truncate -s 100000 "$work/cut/model.safetensors"
  train --model_name_or_path="$work/cut"
  refused "model.safetensors" "100000"
}

@test "no tokenizer" {
  mkdir -p "$work/mute" && cp "$work"/tiny/* "$work/mute/" && rm "$work/mute/tokenizer.json"
  train --model_name_or_path="$work/mute"
  refused "$work/mute/tokenizer.json"
}

@test "a line that is not JSON" {
  { head -n 2 "$work/train.jsonl"; echo '{"text": "no end'; } >"$work/bad.jsonl"
  train --train_file="$work/bad.jsonl"
  refused "bad.jsonl:3"
}

@test "more ranks than rows" {
  echo '{"text": "Too little to share."}' >"$work/short.jsonl"
  train --train_file="$work/short.jsonl"
  refused "short.jsonl" "row"
}

@test "the strategy of the option and of the configuration disagree" {
  train --strategy=ddp
  refused "ddp" "fsdp"
}

@test "a rank that is killed ends the step within 10 s, and both Slurm and we say so" {
  user srun -N3 -n4 --dist-train=fsdp dist-trainer --model_name_or_path="$work/tiny" \
    --train_file="$work/train.jsonl" --block_size=64 --max_steps=1000000 \
    --logging_steps=1 --output_dir="$out" >"$work/killed.out" 2>&1 &
  local srun=$! code=0 start
  eventually 60 grep -q '^step *3/' "$work/killed.out" # in mid-run
  start=$SECONDS
  "$cluster" exec --node node02 -- pkill -KILL -x dist-trainer
  wait "$srun" || code=$?
  tail -n 20 "$work/killed.out"
  [ "$code" -ne 0 ]
  [ $((SECONDS - start)) -le 10 ]
  grep -q 'node02: task 2: Killed' "$work/killed.out"
  [ "$(grep -Ec 'rank 2 \(node02, local 0\) left at step [0-9]+' "$work/killed.out")" -eq 1 ]
  eventually 10 all_idle
}
