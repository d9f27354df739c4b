#!/usr/bin/env bash
# Runs the example against $UEXEC_SERVER (unix:///path/agent.sock, or host:port with $UEXEC_TOKEN_FILE), in a virtual
# environment that is kept in ./.venv and generated modules in ./gen.
set -euo pipefail
cd "$(dirname "$0")"
: "${UEXEC_SERVER:?the address of the server}"
[ -x .venv/bin/python ] || python3 -m venv .venv
.venv/bin/pip install --quiet --disable-pip-version-check --requirement requirements.txt
PYTHON=.venv/bin/python ./generate.sh
export PYTHONPATH=$PWD/gen:$PWD:$PWD/../tools PYTHONDONTWRITEBYTECODE=1
.venv/bin/python repl.py
.venv/bin/python ../tools/try_tools.py
