#!/usr/bin/env bash
# Submits a job and ends with the job's own exit code: a job that was stopped is not a success (`ray job submit` says so).
#   bash scripts/submit.sh --night /shared/nightly.yaml
#   bash scripts/submit.sh --working-dir . -- python jobs/aggregate.py /shared/judgments --out /shared/out
source "$(dirname "$0")/setup.sh"
exec distrank submit "$@"
