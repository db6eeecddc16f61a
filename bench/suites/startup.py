"""The time of a start: imports compared with a bare interpreter, commands with a bare command."""

from __future__ import annotations

import functools
import importlib.util
import os
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import holdfast

from .. import regimes
from ..contenders import Arena
from ..model import Case, Column, Metric, Panel, Reading
from ..scale import Scale
from ..stats import median

_WITHIN_S = 30.0

METRICS = (Metric(Column("wall", "ms", "over"), "ms"),)


def panels(arena: Arena, scale: Scale) -> list[Panel]:
    """Return one panel with a row for each command."""
    labels = list(arena.commands(Path()))
    absent = {
        label: f"{label.split()[1]} is not installed (pip install --group bench)"
        for label in labels
        if label.startswith("import ") and not _there(label.split()[1])
    }
    times = scale.of(3, 1)
    return [
        Panel(
            key="startup",
            title="From start to end of a program",
            regime=regimes.ALONE,
            cases=[
                Case(label, functools.partial(read, arena, label, times))
                for label in labels
                if label not in absent
            ],
            metrics=METRICS,
            reference=labels[0],
            rounds=scale.rounds_of(15, 1),
            targets=arena.targets.get("startup", ()),
            absent=absent,
        )
    ]


def _there(package: str) -> bool:
    return importlib.util.find_spec(package.strip(",")) is not None


def read(arena: Arena, label: str, times: int, place: Path) -> Reading:
    """Start the command ``times`` times, after a first start that can write byte code."""
    command = arena.commands(place)[label]
    source = str(Path(holdfast.__file__).parents[1])
    path = os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH")]))
    around = {**os.environ, "PYTHONPATH": path, "HOLDFAST_URL": arena.url(place)}
    _run(command, around)
    return {"ms": [median([_run(command, around) for _ in range(times)])]}


def _run(command: Sequence[str], around: dict[str, str]) -> float:
    begun = time.perf_counter()
    with subprocess.Popen(command, env=around, stdin=subprocess.DEVNULL) as running:
        # `wait(timeout)` isn't used, because it polls with pauses of up to 50 ms.
        late = threading.Timer(_WITHIN_S, running.kill)
        late.start()
        code = running.wait()
        took = time.perf_counter() - begun
        late.cancel()
    if code:
        raise subprocess.CalledProcessError(code, command)
    return took * 1e3
