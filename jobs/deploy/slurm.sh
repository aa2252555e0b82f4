#!/bin/bash
# A scan on Slurm: one Ray cluster over the nodes of the allocation.
#   sbatch jobs/deploy/slurm.sh SOURCE --run RUN [more options of `privsieve scan`]
# Start it in a folder that all nodes share. The same command continues a run, so a requeued job goes on where the
# last one ended. Never run on a real Slurm cluster.
#SBATCH --job-name=privsieve-scan
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --exclusive
#SBATCH --gpus-per-node=1
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=%x-%j.log

set -euo pipefail

if [ "$#" -lt 3 ]; then
  echo "usage: sbatch jobs/deploy/slurm.sh SOURCE --run RUN [more options of privsieve scan]" >&2
  exit 2
fi

# The environment that holds privsieve, on storage that all nodes share; set PRIVSIEVE_VENV where it lies elsewhere.
# shellcheck disable=SC1091
source "${PRIVSIEVE_VENV:-.venv}/bin/activate"

mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
head=${nodes[0]}
port=$((20000 + SLURM_JOB_ID % 10000))
export RAY_USAGE_STATS_ENABLED=0
export RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S=0  # at the end nothing runs that could move elsewhere

# One token per job, readable by its owner only: the nodes of a Slurm cluster are shared with other people.
export RAY_AUTH_MODE=token
export RAY_AUTH_TOKEN_PATH=$PWD/.ray-token-$SLURM_JOB_ID
(umask 077 && head -c 20 /dev/urandom | od -An -tx1 | tr -d ' \n' >"$RAY_AUTH_TOKEN_PATH")

stop() {
  # shellcheck disable=SC2046
  kill $(jobs -p) 2>/dev/null || true
  wait || true
  rm -f "$RAY_AUTH_TOKEN_PATH"
}
trap stop EXIT

# Nobody but this job uses the dashboard and the client server; their fixed ports would clash between jobs.
address=$(srun --nodes=1 --ntasks=1 --nodelist="$head" hostname --ip-address | awk '{print $1}'):$port
srun --nodes=1 --ntasks=1 --overlap --nodelist="$head" \
  ray start --head --block --port="$port" --ray-client-server-port=$((port + 10000)) --include-dashboard=false &
for node in "${nodes[@]:1}"; do
  srun --nodes=1 --ntasks=1 --overlap --nodelist="$node" ray start --block --address="$address" &
done

# Joins as soon as the head answers; the other nodes may come later, and the scan uses them from then on.
for _ in $(seq 60); do
  if (exec 3<>"/dev/tcp/${address%:*}/$port") 2>/dev/null; then break; fi
  sleep 2
done

# A requeued job takes its own run over without waiting for the lease to grow stale. Not in the background, so that
# the exit code becomes that of the job.
takeover=()
if [ "${SLURM_RESTART_COUNT:-0}" -gt 0 ]; then takeover=(--takeover); fi
python -m jobs scan "$@" --ray-address "$address" "${takeover[@]}"
