"""Reads a password from a terminal, or else from a line of standard input."""

from __future__ import annotations

import sys

import typer

from ottla.cli.kafka.tool import ToolError


def ask_password(prompt: str, *, twice: bool = False) -> str:
    if sys.stdin.isatty():
        password: str = typer.prompt(prompt, hide_input=True, confirmation_prompt=twice, err=True)
        return password
    password = sys.stdin.readline().rstrip("\r\n")
    if not password:
        raise ToolError(f"{prompt}: there is no terminal to ask at, and no line on standard input")
    return password
