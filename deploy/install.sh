#!/bin/sh
# Installs a checkout, in whose folder this is called, into the Python that is first in PATH.
#
#   ../deploy/install.sh EXTRAS COMPILE      for example: install.sh zookeeper,registry 1
set -eu

extras=$1
compile=$2

python -m pip install --no-cache-dir --upgrade pip 'setuptools>=77'
if [ "$compile" = 1 ]; then
    # mypyc reads the types of what the hot modules import.
    python -m pip install --no-cache-dir mypy numpy pyarrow
    OTTLA_COMPILE=1 python -m pip install --no-cache-dir --no-build-isolation ".[$extras]"
    python -m pip uninstall --yes mypy
    case ",$extras," in
    *,spark,* | *,all,*) ;;
    *) python -m pip uninstall --yes numpy pyarrow ;;
    esac
else
    python -m pip install --no-cache-dir ".[$extras]"
fi
python -m compileall -q "$(python -c 'import ottla; print(ottla.__path__[0])')"
