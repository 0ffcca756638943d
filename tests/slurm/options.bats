#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# --dist-train where users meet it: srun, sbatch and its script, the environment.
load helper

setup_file() { start_cluster options; }
teardown_file() { stop_clusters; }

# fails COMMAND...: it ends as Slurm ends on a wrong option (srun 255, sbatch 1), neither by a
# signal nor by the deadline, and no job came of it.
fails() {
  local before after
  before=$(next_job)
  run user "$@"
  [ "$status" -eq 1 ] || [ "$status" -eq 255 ]
  after=$(next_job)
  [ "$after" -eq $((before + 1)) ]
}

# refused WORD COMMAND...: it fails and shows WORD with a caret under its first letter.
refused() {
  local word=$1 shown caret
  shift
  fails "$@"
  shown=$(grep -B1 '\^' <<<"$output" | head -n 1)
  caret=$(grep -m 1 '\^' <<<"$output")
  caret=${caret%%^*}
  [[ ${shown:${#caret}} == "$word"* ]]
}

# Does the program of the step see our variables? yes, no
asked() { grep -qx "DIST_TRAIN_MODE=torch" && echo yes || echo no; }

@test "a word nobody knows is refused before anything is allocated" {
  refused fspd srun --dist-train=fspd true
  [[ $output == *"unknown word 'fspd'"* ]]
  [[ $output == *"^~~~   did you mean 'fsdp'?"* ]]
  [[ $output == *"--dist-train=help"* ]]
  refused fspd srun --dist-train=torch,fspd true
  refused fspd sbatch --dist-train=fspd --wrap true
  user sh -c 'printf "#!/bin/sh\n#SBATCH --dist-train=verbos\ntrue\n" >wrong.sh'
  refused verbos sbatch wrong.sh
  [[ $output == *"did you mean 'verbose'?"* ]]
  refused verbos env SLURM_DIST_TRAIN=verbos srun --dist-train true
}

@test "words that repeat or contradict each other are refused" {
  refused fsdp srun --dist-train=fsdp,fsdp true
  [[ $output == *"'fsdp' is there twice"* ]]
  refused ddp srun --dist-train=fsdp,ddp true
  [[ $output == *"'ddp' contradicts 'fsdp'"* ]]
  refused torch srun --dist-train=off,torch true
}

@test "text that is no word at all is refused" {
  refused '' srun --dist-train=fsdp, true
  refused '' srun "--dist-train=fsdp,$(printf 'f\xffs\001p')" true
  fails srun "--dist-train=$(head -c 100000 /dev/zero | tr '\0' a)" true
  [[ $output == *"100000 bytes"* ]]
  # shellcheck disable=SC2016 # hostile as it stands
  refused '' srun '--dist-train=%s%n$(id)' true
}

@test "help prints the grammar and runs nothing" {
  before=$(next_job)
  run -0 user srun --dist-train=help touch ran
  for word in torch fsdp ddp off verbose MASTER_ADDR RANK; do [[ $output == *"$word"* ]]; done
  run -0 user sbatch --dist-train=help --wrap 'touch ran'
  [[ $output == *fsdp* ]]
  after=$(next_job)
  [ "$after" -eq $((before + 1)) ]
  run -1 user test -e ran
}

@test "srun --help names the option" {
  run -0 user srun --help
  [[ $output == *--dist-train* ]]
}

@test "what a step says beats the environment, and off beats all" {
  [ "$(user srun env | asked)" = no ]
  [ "$(user srun --dist-train env | asked)" = yes ]
  [ "$(user srun --dist-train=off env | asked)" = no ]
  [ "$(user env SLURM_DIST_TRAIN=torch srun env | asked)" = yes ]
  [ "$(user env SLURM_DIST_TRAIN=torch srun --dist-train=off env | asked)" = no ]
  # Away from a command line only a mode switches on.
  [ "$(user env SLURM_DIST_TRAIN=fsdp srun env | asked)" = no ]
  run -0 user env SLURM_DIST_TRAIN=fsdp srun --dist-train=ddp printenv DIST_TRAIN_STRATEGY
  [ "$output" = ddp ]
  run -0 user srun --export=NONE --dist-train=fsdp /usr/bin/printenv DIST_TRAIN_STRATEGY WORLD_SIZE
  [ "${lines[0]}" = fsdp ]
  [ "${lines[1]}" = 1 ]
}

@test "sbatch passes the option on to the srun lines of its script" {
  user sh -c 'cat >job.sh' <<'SH'
#!/bin/sh
#SBATCH --dist-train=fsdp
srun /usr/bin/env >inherited
srun --dist-train=ddp /usr/bin/env >changed
srun --dist-train=off /usr/bin/env >off
SH
  for export in ALL NONE; do
    user sbatch --wait --export=$export --chdir="$("$cluster" home)" job.sh
    [ "$(user grep '^DIST_TRAIN_STRATEGY' inherited changed off)" = "$(
      printf 'inherited:DIST_TRAIN_STRATEGY=fsdp\nchanged:DIST_TRAIN_STRATEGY=ddp')" ]
    user rm inherited changed off
  done
  # The command line of sbatch beats the script.
  user sbatch --wait --dist-train=ddp job.sh
  run -0 user grep '^DIST_TRAIN_STRATEGY' inherited
  [ "$output" = DIST_TRAIN_STRATEGY=ddp ]
}

@test "verbose shows every rank of the step on srun's stderr, and only there" {
  run -0 --separate-stderr user srun -N3 -n6 --dist-train=verbose printenv RANK
  [ "$(sort -n <<<"$output" | tr '\n' ' ')" = "0 1 2 3 4 5 " ]
  # shellcheck disable=SC2154 # set by run
  [[ $stderr == *"world 6 on 3 nodes"* ]]
  local rows
  rows=$(awk '$1 == "dist-train:" && $2 ~ /^node0/ { print $2, $3, $4 }' <<<"$stderr")
  [ "$rows" = "$(printf '%s\n' 'node01 0 0' 'node01 1 1' 'node01 2 2' 'node01 3 3' 'node02 4 0' 'node03 5 0')" ]
}

@test "a launcher with several tasks on a node, or that knows of its own only: one warning from srun" {
  user sh -c 'printf "#!/bin/sh\n" | tee torchrun accelerate >/dev/null; chmod +x torchrun accelerate'
  run -0 --separate-stderr user srun -N2 -n3 --dist-train ./torchrun train.py
  [[ $stderr == "dist-train: the command is the launcher 'torchrun', and 3 tasks on 2 nodes"* ]]
  [ "$(wc -l <<<"$stderr")" = 1 ]
  run -0 --separate-stderr user srun -N2 -n2 --dist-train ./torchrun train.py
  [ "$stderr" = "dist-train: 'torchrun' without --nnodes trains on each node alone; --dist-train=torchrun tells it of all 2 nodes" ]
  run -0 --separate-stderr user srun -N2 -n2 --dist-train ./torchrun --nnodes=2 train.py
  [ "$stderr" = "" ]
  run -0 --separate-stderr user srun -N2 -n2 --dist-train=torchrun ./torchrun train.py
  [ "$stderr" = "" ]
  run -0 --separate-stderr user srun -N2 -n2 --dist-train=torchrun ./torchrun --standalone train.py
  [[ $stderr == "dist-train: 'torchrun' with --standalone trains on each of the 2 nodes alone; "* ]]
  [ "$(wc -l <<<"$stderr")" = 1 ]
  run -0 --separate-stderr user srun -N2 -n2 --dist-train=torchrun ./torchrun --nnodes=3 train.py
  [[ $stderr == "dist-train: 'torchrun' gets --nnodes 3, and the step has 2 nodes: "* ]]
  run -0 --separate-stderr user srun --dist-train=torchrun -N2 -n2 ./torchrun --nnodes=3 t.py : -N1 -n1 ./torchrun --nnodes=3 t.py
  [[ $stderr != *dist-train* ]]
  run -0 --separate-stderr user srun -N2 -n2 --dist-train=torchrun ./accelerate launch train.py
  [[ $stderr == "dist-train: 'accelerate launch' without --num_machines trains on each node alone "* ]]
  [ "$(wc -l <<<"$stderr")" = 1 ]
  run -0 --separate-stderr user srun -N2 -n3 ./torchrun train.py
  [ "$stderr" = "" ]
}

@test "MASTER_ADDR=localhost on several nodes is not kept, and the user is told once" {
  run -0 --separate-stderr user env MASTER_ADDR=localhost srun -N2 -n3 --dist-train=env=keep printenv MASTER_ADDR
  [ "$(sort -u <<<"$output")" = 10.77.0.1 ]
  [[ $stderr == *"MASTER_ADDR is 10.77.0.1, not your 'localhost': no other node would find rank 0 there"* ]]
  [ "$(grep -c localhost <<<"$stderr")" = 1 ]
  run -0 --separate-stderr user env MASTER_ADDR=localhost srun -N1 -n2 --dist-train=env=keep printenv MASTER_ADDR
  [ "$(sort -u <<<"$output")" = localhost ]
}

# keeps HOW-IT-ENDS WORDS NAME=VALUE...: a step of 2+1 tasks with these variables and env=keep says the words once.
keeps() {
  run --separate-stderr user env "${@:3}" srun -N2 -n3 --dist-train=env=keep true
  echo "$stderr"
  [ "$(grep -c "your .*(env=keep): $2" <<<"$stderr")" = 1 ]
  [ $((status != 0)) -eq "$1" ] # of a task, or 143 of one that was ended along
  [ "$status" -ne 124 ]
}
@test "env=keep with a MASTER_ADDR that does not resolve, or a MASTER_PORT that is none: an error in seconds" {
  local begin=$SECONDS
  keeps 1 'cannot connect to nowhere.invalid:29500: ' MASTER_ADDR=nowhere.invalid MASTER_PORT=29500
  keeps 1 'no such port' MASTER_PORT=x
  keeps 1 "that is each node's own loopback" MASTER_ADDR=0
  keeps 1 'cannot connect to 10.77.0.77:29500: .*No route to host' MASTER_ADDR=10.77.0.77 MASTER_PORT=29500
  [ $((SECONDS - begin)) -le 30 ]
}
@test "env=keep with an endpoint of another node, or of another program: a warning" {
  keeps 0 "not of rank 0's node, node01 10.77.0.1, and nothing listens there" MASTER_ADDR=node02 MASTER_PORT=29500
  keeps 0 'another program listens there already' MASTER_PORT=6818 # slurmd
  run -0 --separate-stderr user env MASTER_ADDR=node01 MASTER_PORT=29500 srun -N2 -n3 --dist-train=env=keep true
  [ "$stderr" = "" ]
}

@test "env=keep with a name of several addresses, one of them behind a firewall: one that answers will do" {
  local node
  for node in node01 node02; do
    "$cluster" exec --node $node -- ip neigh replace 10.77.0.77 lladdr 02:00:00:00:00:77 dev eth0 nud permanent
  done
  root sh -c 'printf "%s both\n" 10.77.0.1 10.77.0.77 >>/etc/hosts'
  run -0 --separate-stderr user env MASTER_ADDR=both MASTER_PORT=29500 srun -N2 -n3 --dist-train=env=keep true
  [ "$stderr" = "" ]
}

@test "verbose names a proxy that gRPC would use" {
  run -0 --separate-stderr user env https_proxy=http://proxy:3128 srun --dist-train=verbose true
  [[ $stderr == *"https_proxy='http://proxy:3128' is set"* ]]
  run -0 --separate-stderr user env https_proxy=http://proxy:3128 srun --dist-train true
  [ "$stderr" = "" ]
}

@test "dry-run shows the same table and starts no program" {
  run -0 --separate-stderr user srun -N3 -n6 --dist-train=dry-run touch started
  [ -z "$output" ]
  [ "$(grep -cE '^dist-train: node0[123] +[0-5] ' <<<"$stderr")" = 6 ]
  run -1 user test -e started
  refused dry-run env SLURM_DIST_TRAIN=on,dry-run srun true
}
