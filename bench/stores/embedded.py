"""The embedded arena: ``sqlite:///path``, and other locks that need no server."""

from __future__ import annotations

import contextlib
import shutil
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path

from .. import machine
from ..contenders import ALL, Arena, Contender, Part
from ..model import Target
from ..shields import COST_S
from . import feeds_ours, shields_ours
from .ours import anew, kept, on_loop
from .peers import AsyncFileLock, DiskCache, Fasteners, FileLock, Flock, PortaLocker
from .shields_sql import SELECT, SELECT_ASYNC, sqlite

OURS = "holdfast"
OURS_ASYNC = "holdfast, asyncio"
FILELOCK = "filelock FileLock"

_ONCE: frozenset[Part] = frozenset({"uncontended"})
_NO_TIMEOUT: frozenset[Part] = ALL - {"timeouts"}


def url(place: Path) -> str:
    """Return the URL of the store in a folder."""
    return f"sqlite://{place}/locks.db"


def commands(place: Path) -> Mapping[str, Sequence[str]]:
    """Return the commands whose start is measured; the first one is the reference."""
    script = Path(sysconfig.get_path("scripts"), "holdfast")
    holdfast = [str(script)] if script.is_file() else [sys.executable, "-m", "holdfast"]
    take = "from holdfast import lock; lock('x').acquire().release()"
    found: dict[str, Sequence[str]] = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "import holdfast": [sys.executable, "-c", "import holdfast"],
        "import holdfast, take and free a lock": [sys.executable, "-c", take],
        "import filelock": [sys.executable, "-c", "import filelock"],
        "import fasteners": [sys.executable, "-c", "import fasteners"],
        "import diskcache": [sys.executable, "-c", "import diskcache"],
        "import portalocker": [sys.executable, "-c", "import portalocker"],
        "holdfast run x -- true": [*holdfast, "run", "x", "--", "true"],
        "true": ["true"],
    }
    if shutil.which("flock"):
        found["flock FILE true"] = ["flock", str(place / "flock"), "true"]
    return found


_GUARDS = shields_ours.targets(SELECT, SELECT_ASYNC)
#: Maximum milliseconds from a process's death to the value in the others. The kernel reports the
#: death immediately, so no waiter waits for the end of a lease.
_TOLD_MS = COST_S * 1e3 + 100.0
_APART = [
    Target(ours, "overlaps", "value", at_most=0.0, safety=True) for ours in (OURS, OURS_ASYNC)
]

EMBEDDED = Arena(
    name="embedded",
    title="The embedded store against locks that need nothing running",
    contenders=(
        Contender(OURS, kept(url)),
        Contender("holdfast, a new lock in `with`", anew(url), parts=_ONCE),
        Contender(OURS_ASYNC, on_loop(url), "asyncio"),
        Contender(FILELOCK, FileLock, package="filelock", period_s=0.05),
        Contender(
            "filelock AsyncFileLock", AsyncFileLock, "asyncio", package="filelock", parts=_ONCE
        ),
        Contender("fasteners InterProcessLock", Fasteners, package="fasteners", period_s=0.1),
        Contender(
            "diskcache Lock", DiskCache, package="diskcache", parts=_NO_TIMEOUT, period_s=0.001
        ),
        Contender("portalocker Lock", PortaLocker, package="portalocker", period_s=0.25),
        Contender("flock(2), bare", Flock, parts=_NO_TIMEOUT),
    ),
    reference=FILELOCK,
    url=url,
    commands=commands,
    around=lambda: contextlib.nullcontext(machine.files()),
    feeders=feeds_ours.feeders(url),
    shielders=(*shields_ours.shielders(url), *sqlite()),
    references={"queue": OURS, "queue-wake": OURS, **shields_ours.references(SELECT)},
    suites=(
        "uncontended",
        "handoff",
        "contention",
        "renewal",
        "queue",
        "queue-fairness",
        "queue-depth",
        "guard",
        "loop",
        "startup",
        "timeouts",
    ),
    targets={
        "uncontended": [Target(OURS, "pair", "ratio", at_most=0.5, stretch=0.45)],
        "handoff-idle": [Target(OURS, "p50", "faster", at_least=30.0, stretch=60.0)],
        "handoff-warm": [Target(OURS, "p50", "faster", at_least=30.0, stretch=60.0)],
        "contention-2": _APART,
        "contention-8": [
            Target(OURS, "changes", "ratio", at_least=15.0),
            Target(OURS, "jain", "value", at_least=0.99),
            Target(OURS, "starved", "value", at_most=0.0),
            *_APART,
        ],
        "contention-32": _APART,
        "renewal": [
            Target(OURS, "threads", "value", at_most=1.0),
            Target(OURS, "lost", "value", at_most=0.0, safety=True),
            Target(OURS, "cpu", "value", at_most=5.0),
        ],
        "queue-wake": [Target(OURS, "p50", "value", at_most=2000.0)],
        **_GUARDS,
        "guard-death": [
            *_GUARDS["guard-death"],
            *(Target(ours, "max", "value", at_most=_TOLD_MS) for ours in (OURS, OURS_ASYNC)),
        ],
        "loop": [Target(OURS_ASYNC, "p999", "value", at_most=10.0)],
        "startup": [
            Target("import holdfast", "wall", "over", at_most=25.0),
            Target("holdfast run x -- true", "wall", "over", at_most=60.0),
        ],
        "timeouts": [
            Target(OURS, "p999", "value", at_most=250.0),
            Target(OURS_ASYNC, "p999", "value", at_most=250.0),
        ],
    },
)
