#!/usr/bin/env bash
# Runs the example against $UEXEC_SERVER (unix:///path/agent.sock, or host:port with $UEXEC_TOKEN_FILE). What it installs
# and makes stays in ./node_modules, ./gen and ./build.
set -euo pipefail
cd "$(dirname "$0")"
: "${UEXEC_SERVER:?the address of the server}"
npm ci --silent --no-audit --no-fund --ignore-scripts
npm run --silent generate
npm run --silent build
npm run --silent start
