# Sourced by demo.sh and test.sh: makes .venv with the locked versions and the package in it. Does nothing if the lock
# file and pyproject.toml have not changed since the last time.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python="${PYTHON:-python3}"
"$python" -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "distrank needs Python 3.11 or newer")'
state=".venv/.installed-$(cat requirements.lock pyproject.toml | sha256sum | cut -c1-16)"
if [ ! -f "$state" ]; then
  echo "setting up .venv (once) ..."
  [ -x .venv/bin/python ] || "$python" -m venv .venv
  .venv/bin/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
  .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
  rm -f .venv/.installed-*
  touch "$state"
fi
export PATH="$PWD/.venv/bin:$PATH"
