#!/usr/bin/env bash
# Makes Python modules of the repository's protos in the folder given, ./gen by default. Needs grpcio-tools.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
protos=$here/../../proto
out=${1:-$here/gen}
mkdir -p "$out"
"${PYTHON:-python3}" -m grpc_tools.protoc --proto_path="$protos" \
    --python_out="$out" --pyi_out="$out" --grpc_python_out="$out" "$protos"/unified_exec/v1/*.proto
