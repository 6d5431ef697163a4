#!/bin/sh
# Installs the checkout in the current directory into a virtual environment.
#
#   deploy/install.sh ENVIRONMENT EXTRAS COMPILE     for example /opt/ottla zookeeper,registry 1
#
# COMPILE=1 compiles the hot modules, which needs a C compiler.
set -eu

environment=$1
extras=$2
compile=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

python3 -m venv "$environment"
OTTLA_COMPILE=$compile "$environment/bin/python" -m pip wheel --quiet --no-cache-dir --no-deps \
    --wheel-dir "$work/wheels" .

wheel=$(ls "$work"/wheels/ottla-*.whl)
"$environment/bin/python" -m pip install --quiet --no-cache-dir "${wheel}[$extras]"
"$environment/bin/ottla" --version
