#!/bin/bash
# The entrypoint of a RayJob: runs a command, and stops the job if its exit code is 2, that is, if the command was wrong.
#   stop-if-refused privsieve scan SOURCE --run RUN …
# KubeRay tries each failed job again on a fresh cluster, whatever its exit code. It does not try a stopped one again.
# A store that does not answer is exit code 1, and is tried again.
code=0
"$@" || code=$?
if [ "$code" -eq 2 ]; then
  job=$(python -c 'import json, os; print(json.loads(os.environ["RAY_JOB_CONFIG_JSON_ENV_VAR"])["metadata"]["job_submission_id"])')
  echo "the command was wrong, so this job is stopped and not tried again" >&2
  ray job stop --address "${DASHBOARD:-http://127.0.0.1:8265}" "$job"
fi
exit "$code"
