#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A notebook on nodes of its own: [NODES=2] [GPUS=8] [CPUS=12] notebook.sh [PROGRAM [ARGUMENT]...]; CPUS: for each GPU
# At home: ssh -J LOGIN -L 8888:localhost:8888 NODE
# Cells start ranks on all of its nodes, here two of eight GPUs: !srun --overlap -N2 -n16 --dist-train python train.py
[ $# -gt 0 ] || set -- jupyter lab --no-browser --port=8888
exec salloc --job-name=notebook --nodes="${NODES:-1}" --gpus-per-node="${GPUS:-1}" --time=4:00:00 \
  --ntasks-per-node="${GPUS:-1}" --cpus-per-task="${CPUS:-8}" srun --nodes=1 --ntasks=1 --pty "$@"
