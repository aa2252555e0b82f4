#!/bin/bash
# A scan on Slurm: an array of jobs of one node each, which form one Ray cluster as they come.
#   sbatch --array=0-7 jobs/deploy/slurm.sh s3://BUCKET/shards --run s3://BUCKET/run --engine vllm \
#     --model s3://BUCKET/models/MODEL --adapter s3://BUCKET/adapters/ADAPTER
# The first task is the head and scans; the others join it whenever they start, and may be preempted and come back.
# Ten minutes before the time limit a task requeues itself. A head that comes back continues the run, and the others
# join it again. Start it in a folder that all nodes share. Never run on a real Slurm cluster.
#SBATCH --job-name=privsieve-scan
#SBATCH --array=0-3
#SBATCH --nodes=1
#SBATCH --exclusive
#SBATCH --gpus-per-node=8
#SBATCH --time=24:00:00
#SBATCH --signal=B:USR1@600
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=%x-%A-%a.log

set -euo pipefail

if [ "$#" -lt 3 ]; then
  echo "usage: sbatch --array=0-N jobs/deploy/slurm.sh SOURCE --run RUN [more options of privsieve scan]" >&2
  exit 2
fi

# The environment that holds privsieve, on storage that all nodes share; set PRIVSIEVE_VENV where it is elsewhere.
# shellcheck disable=SC1091
source "${PRIVSIEVE_VENV:-.venv}/bin/activate"

# Where the tasks meet: the head's address, and a token readable by its owner only, since nodes are shared with others.
meeting=$PWD/.privsieve-$SLURM_ARRAY_JOB_ID
export RAY_AUTH_MODE=token
export RAY_AUTH_TOKEN_PATH=$meeting/token
export RAY_USAGE_STATS_ENABLED=0
export RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S=0  # at the end nothing runs that could move elsewhere
node=(ray start --block --dashboard-agent-listen-port=0)

stop() {
  # shellcheck disable=SC2046
  kill $(jobs -p) 2>/dev/null || true
  wait || true
}

# Slurm's signal: the time limit is near. Background commands ignore SIGINT; SIGTERM ends a scan as Ctrl-C does.
leaving="" scan=""
trap 'leaving=yes; if [ -n "$scan" ]; then kill "$scan" 2>/dev/null || true; fi' USR1

requeue() {
  stop
  echo "the time limit is near, so this task is requeued" >&2
  scontrol requeue "$SLURM_JOB_ID"
}

lead() {
  trap stop EXIT
  rm -f "$meeting/address"  # of this task before it was requeued
  (umask 077 && mkdir -p "$meeting" && head -c 20 /dev/urandom | od -An -tx1 | tr -d ' \n' >"$RAY_AUTH_TOKEN_PATH")
  # Only this array uses the dashboard and the client server; their fixed ports would clash between jobs.
  local port=$((20000 + SLURM_ARRAY_JOB_ID % 10000))
  local ip address
  ip=$(hostname --ip-address | awk '{print $1}')
  case $ip in 127.*) ip=$(hostname --all-ip-addresses | awk -v own="$ip" '{print $1 ? $1 : own}') ;; esac
  address=$ip:$port
  "${node[@]}" --head --node-ip-address="$ip" --port="$port" --ray-client-server-port=$((port + 10000)) --include-dashboard=false &
  until (exec 3<>"/dev/tcp/${address%:*}/$port") 2>/dev/null; do
    if ! kill -0 $! 2>/dev/null; then exit 1; fi  # Ray has said why
    sleep 2
  done
  echo "$address" >"$meeting/address.part" && mv "$meeting/address.part" "$meeting/address"

  # A requeued task takes its own run over without waiting for the lease to grow stale.
  local takeover=() code=0
  if [ "${SLURM_RESTART_COUNT:-0}" -gt 0 ]; then takeover=(--takeover); fi
  python -m jobs scan "$@" --ray-address "$address" "${takeover[@]}" &
  scan=$!
  if [ -n "$leaving" ]; then kill "$scan"; fi
  wait "$scan" || code=$?
  if [ -n "$leaving" ]; then  # the signal ended `wait`, not yet the scan
    code=0
    wait "$scan" || code=$?
    if [ "$code" -ne 0 ] && [ "$code" -ne 2 ]; then  # not done, not refused; Ray may end it with 1
      rm -f "$meeting/address"
      requeue
      return
    fi
  fi
  if [ "$code" -ge 128 ]; then exit "$code"; fi  # killed: the others wait for the task to come back
  rm -rf "$meeting"
  scancel --state=PENDING "$SLURM_ARRAY_JOB_ID"  # there is nothing left to do for tasks that did not start yet
  exit "$code"
}

follow() {
  trap stop EXIT
  local address began_s idle_since_s=$SECONDS met=""
  until [ -n "$met" ] && [ ! -d "$meeting" ]; do  # the head has ended
    if [ -n "$leaving" ]; then
      requeue
      return
    fi
    if [ $((SECONDS - idle_since_s)) -ge 1800 ]; then
      echo "there was no head for half an hour, so this node is given back" >&2
      return
    fi
    if ! address=$(cat "$meeting/address" 2>/dev/null); then
      sleep 5
      continue
    fi
    met=yes began_s=$SECONDS
    "${node[@]}" --address="$address" &
    while [ "$(cat "$meeting/address" 2>/dev/null)" = "$address" ] && kill -0 $! 2>/dev/null && [ -z "$leaving" ]; do
      sleep 5
    done
    stop
    if [ $((SECONDS - began_s)) -ge 120 ]; then idle_since_s=$SECONDS; fi  # less: no answer
  done
}

if [ "$SLURM_ARRAY_TASK_ID" = "$SLURM_ARRAY_TASK_MIN" ]; then lead "$@"; else follow; fi
