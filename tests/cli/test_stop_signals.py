"""Which signals ask for an end, and which for one at once."""

from __future__ import annotations

import signal

import pytest

from ottla.cli.local.stop_signals import StopSignals


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM, signal.SIGINT])
def test_only_ctrl_c_asks_again(number: signal.Signals) -> None:
    """A terminal that closes may say so twice, and `ottla down` sends SIGTERM beside a Ctrl-C."""
    with StopSignals() as signals:
        assert not signals.asked
        signal.raise_signal(number)
        assert signals.asked
        signal.raise_signal(number)
        assert signals.urgent == (number == signal.SIGINT)
