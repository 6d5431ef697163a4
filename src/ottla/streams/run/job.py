"""A job: a Python file with a topology, or with a function `topology()` that returns one.

It may also set `application_id = "..."` and `config = {...}`, with Kafka's names.
"""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from ottla.engine.graph import Graph, TopologyError
from ottla.streams.topology import Topology


class JobError(Exception):
    """The file is not a job; the message says why."""


@dataclass(frozen=True, slots=True)
class StreamsJob:
    topology: Topology
    application_id: str
    config: Mapping[str, Any] = field(default_factory=dict)

    @property
    def graph(self) -> Graph:
        return self.topology.graph


def load(path: Path) -> StreamsJob:
    module = _imported(path)
    config = getattr(module, "config", {})
    if not isinstance(config, Mapping):
        raise JobError(f"{path}: config is a mapping of settings, not {config!r}")
    name = getattr(module, "application_id", None) or config.get("application.id") or path.stem
    return StreamsJob(_topology(module, path), str(name), config)


def _imported(path: Path) -> ModuleType:
    """Pickles the module's functions by value, because Spark's workers can't import the file."""
    if not path.is_file():
        raise JobError(f"there is no file {path}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise JobError(f"{path} is not a Python file: its name must end with .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    sys.path.insert(0, str(path.parent.resolve()))
    _carried_out(path, partial(spec.loader.exec_module, module))
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    return module


def _carried_out(path: Path, code: Callable[[], Any]) -> Any:
    """Runs the job's code; an error shows only the part of the traceback in that file."""
    try:
        return code()
    except (JobError, TopologyError):
        raise
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        mine = [at for at, frame in enumerate(frames) if Path(frame.filename) == path.absolute()]
        theirs = frames[mine[0] :] if mine else []
        where = "".join(traceback.format_list(theirs))
        what = "".join(traceback.format_exception_only(error)).rstrip()
        raise JobError(f"{path} can't be read\n{where}{what}") from None


def _topology(module: ModuleType, path: Path) -> Topology:
    made = getattr(module, "topology", None)
    if callable(made) and not isinstance(made, Topology):
        made = _carried_out(path, made)
    if made is None:
        found = [value for value in vars(module).values() if isinstance(value, Topology)]
        if len(found) == 1:
            return found[0]
        if len(found) > 1:
            raise JobError(f"{path} has {len(found)} topologies: name one of them topology")
    if not isinstance(made, Topology):
        raise JobError(
            f"{path} has no topology: define topology = Topology(), or a function topology()"
        )
    return made
