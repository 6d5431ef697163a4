"""Whether the installed ottla works: `make wheel`, and each wheel that cibuildwheel builds.

    fresh/bin/python tools/check_wheel.py              its hot modules are compiled
    fresh/bin/python tools/check_wheel.py --pure       none of them is

The interpreter that runs it has ottla and what ottla requires, nothing else. It starts a broker,
and Kafka's console tools of that installation send one record through it.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
STEP_S_MAX = 60


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pure", action="store_true", help="the wheel is not compiled")
    build = "interpreted" if parser.parse_args().pure else "compiled"
    found = importlib.util.find_spec("ottla")
    if found is None or found.origin is None or Path(found.origin).is_relative_to(ROOT / "src"):
        sys.exit("ottla is not installed here from a wheel")
    installed = Path(found.origin).parent
    check_modules(installed, build)
    check_broker(build)
    print(f"ottla in {installed}: {build}, a record went through its broker")


def hot_modules() -> list[str]:
    tree = ast.parse((ROOT / "setup.py").read_text(encoding="utf-8"))
    (found,) = [
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "HOT"
    ]
    return list(found)


def check_modules(installed: Path, build: str) -> None:
    """By their files, because some need libraries that a base install lacks."""
    compiled = {name for name in hot_modules() if list(installed.glob(f"{name}.*.so"))}
    expected = set(hot_modules()) if build == "compiled" else set()
    if wrong := sorted(compiled ^ expected):
        sys.exit(f"the build is not {build}: {', '.join(wrong)}")


def check_broker(build: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        properties = (f"log.dirs={folder}/data", "listeners=PLAINTEXT://127.0.0.1:0")
        words = [f"--override={setting}" for setting in properties]
        broker = subprocess.Popen(
            [BIN / "ottla", "serve", *words], stderr=subprocess.PIPE, text=True, cwd=folder
        )
        try:
            address = wait_for_address(broker, build)
            where = ("--bootstrap-server", address, "--topic", "wheel")
            run("kafka-console-producer", *where, text="one record\n")
            got = run("kafka-console-consumer", *where, "--from-beginning", "--max-messages", "1")
            if got != "one record\n":
                sys.exit(f"the consumer got {got!r}")
        finally:
            broker.terminate()
            broker.communicate(timeout=STEP_S_MAX)
    if broker.returncode:
        sys.exit(f"the broker ended with {broker.returncode}")


def wait_for_address(broker: subprocess.Popen[str], build: str) -> str:
    """The first line names the build, a later one the listener."""
    assert broker.stderr is not None
    first = broker.stderr.readline()
    if build not in first:
        sys.exit(f"the broker does not say that it is {build}: {first}")
    for line in broker.stderr:
        if "started in" in line:
            return line.partition("PLAINTEXT://")[2].split()[0]
    sys.exit("the broker did not start")


def run(tool: str, *words: str, text: str = "") -> str:
    done = subprocess.run(
        [BIN / tool, *words], input=text, capture_output=True, text=True, timeout=STEP_S_MAX
    )
    if done.returncode:
        sys.exit(f"{tool} ended with {done.returncode}: {done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main()
