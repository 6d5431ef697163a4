#!/bin/sh
# Installs a checkout, in whose folder this is called, into an environment.
#
#   deploy/install.sh ENVIRONMENT EXTRAS COMPILE     such as /opt/ottla zookeeper,registry 1
#
# With COMPILE=1 the hot modules are compiled (a C compiler is needed); they are Python otherwise.
set -eu

environment=$1
extras=$2
compile=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

python3 -m venv "$work/build"
build="$work/build/bin/python"
"$build" -m pip install --quiet --no-cache-dir --upgrade pip 'setuptools>=77'
if [ "$compile" = 1 ]; then
    # mypyc reads the types of all that the hot modules import, directly or not.
    "$build" -m pip install --quiet --no-cache-dir 'mypy==2.4.1' numpy pyarrow '.[registry]'
fi
OTTLA_COMPILE=$compile "$build" -m pip wheel --quiet --no-cache-dir --no-deps --no-build-isolation \
    --wheel-dir "$work/wheels" .

python3 -m venv "$environment"
wheel=$(ls "$work"/wheels/ottla-*.whl)
"$environment/bin/python" -m pip install --quiet --no-cache-dir "$wheel[$extras]"
"$environment/bin/ottla" --version
