"""Completion in shells, by the scripts that `ottla --show-completion` prints."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

WAIT_S_MAX = 60.0
ENVIRONMENT = {
    **os.environ,
    "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    # Without this, typer detects the shell that started it, which may be another one.
    "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1",
}


def said(*words: str, **variables: str) -> str:
    done = subprocess.run(
        words,
        capture_output=True,
        text=True,
        env={**ENVIRONMENT, **variables},
        timeout=WAIT_S_MAX,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def bash(line: str) -> list[str]:
    """Bash's completions of this line."""
    script = (
        'eval "$(ottla --show-completion bash)"; complete -p ottla >/dev/null;'
        f" COMP_WORDS=({line}); COMP_CWORD={len(line.split()) - 1}; _ottla_completion ottla;"
        ' printf "%s\\n" "${COMPREPLY[@]}"'
    )
    return said("bash", "-c", script).split()


def test_bash_completes_verbs_commands_and_options() -> None:
    assert bash("ottla clus") == ["cluster"]
    assert bash("ottla topics cre") == ["create"]
    assert bash("ottla up --o") == ["--only", "--override"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_are_answered(shell: str) -> None:
    """Each shell passes the words in its own variable."""
    assert "ottla" in said("ottla", "--show-completion", shell)
    variables = {
        "_OTTLA_COMPLETE": f"complete_{shell}",
        "_TYPER_COMPLETE_ARGS": "ottla cluster re",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    assert "restart" in said("ottla", **variables)
    if shutil.which(shell):
        said(shell, "-c", f"ottla --show-completion {shell} > /dev/null")
