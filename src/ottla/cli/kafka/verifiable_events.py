"""Lines of JSON as Kafka's verifiable clients print them: time and name first, then the facts."""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Any, Final

_PRINTING: Final = threading.Lock()


def print_event(name: str, **facts: Any) -> None:
    """One line, whole, whichever thread prints it."""
    event = {"timestamp": int(time.time() * 1000), "name": name, **facts}
    line = json.dumps(event, separators=(",", ":"), ensure_ascii=False)
    with _PRINTING:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
