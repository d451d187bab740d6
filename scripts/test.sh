#!/usr/bin/env bash
# Sets up and passes the tests: linter, types, and the whole suite but what is marked slow.
#   bash scripts/test.sh            bash scripts/test.sh -m slow            bash scripts/test.sh -k checkpoint
source "$(dirname "$0")/setup.sh"
ruff check .
ruff format --check .
mypy
python -m pytest "$@"
