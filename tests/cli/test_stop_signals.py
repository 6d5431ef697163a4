"""Which signals ask for a clean end, and which for an immediate one."""

from __future__ import annotations

import signal

import pytest

from ottla.cli.local.stop_signals import StopSignals


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM, signal.SIGINT])
def test_only_ctrl_c_needs_a_second_signal(number: signal.Signals) -> None:
    """A closing terminal may send SIGHUP twice, and `ottla down` sends SIGTERM after a Ctrl-C."""
    with StopSignals() as signals:
        assert not signals.stopping
        signal.raise_signal(number)
        assert signals.stopping
        signal.raise_signal(number)
        assert signals.urgent == (number == signal.SIGINT)
