"""Guards tortured on a real store: ``python -m holdfast.testing.guards.torture URL``.

Processes of both faces read through guards, change what the guards stand before, and invalidate,
while some are killed and some are stopped for a while. Everybody keeps a history with moments of
the one monotonic clock that all processes of a machine share; afterwards each answer is judged: it
may not be older than the last change whose invalidation had returned before it was asked for.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from ...runtime.blocking import boottime
from .. import starting
from ..histories import Verdict, judge_files, tell
from ..surroundings import surroundings

KEYS = 3
#: The processes are given so long to start, seconds.
START_S = 60.0


class Options(NamedTuple):
    """A run: where, for how many seconds, by how many processes; a strike in so many seconds."""

    store: str
    seed: int
    seconds: float = 5.0
    processes: int = 4
    every: float = 0.4


class Outcome(NamedTuple):
    """What came of a run."""

    verdict: Verdict
    strikes: dict[str, int]

    def demand(self) -> None:
        """Raise ``PromiseBroken`` if an answer was too old."""
        self.verdict.demand()

    def __str__(self) -> str:
        struck = ", ".join(f"{one} {count}" for one, count in sorted(self.strikes.items()))
        return f"struck: {struck or 'nobody'}\n{tell(self.verdict)}"


def run(options: Options, dies: Callable[[], object] | None = None) -> Outcome:
    """Torture a store; ``dies``: its server is killed and started again, once in the middle."""
    rng = random.Random(options.seed)
    strikes: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="holdfast-guards-") as folder:
        place = Path(folder)
        (place / "versions").write_bytes(b"")
        crew = [_start(options, place, rng) for _ in range(options.processes)]
        try:
            end = _begun(place, len(crew), options.seconds)
            while boottime() < end - options.every:
                time.sleep(options.every)
                at = rng.randrange(len(crew))
                if (
                    dies is not None
                    and not strikes["restart"]
                    and boottime() > end - options.seconds / 2
                ):
                    dies()
                    strikes["restart"] += 1
                elif rng.random() < 0.6:
                    crew[at].kill()
                    crew[at].wait()
                    crew[at] = _start(options, place, rng)
                    strikes["kill"] += 1
                else:
                    crew[at].send_signal(signal.SIGSTOP)
                    time.sleep(rng.uniform(0.2, 1.5))
                    crew[at].send_signal(signal.SIGCONT)
                    strikes["stop"] += 1
            ends = [one.wait(options.seconds + 60) for one in crew]
        finally:
            for one in crew:
                one.kill()
                one.wait()
        if any(ends):
            raise AssertionError(f"seed {options.seed}: processes ended with {ends}")
        return Outcome(judge_files(*place.glob("*.jsonl")), dict(strikes))


def _begun(place: Path, many: int, seconds: float) -> float:
    """Wait until all are there, and let them begin; when it ends."""
    late = boottime() + START_S
    while len(list(place.glob("*.jsonl"))) < many:
        if boottime() > late:
            raise AssertionError(f"the processes have not started within {START_S:g} s")
        time.sleep(0.01)
    end = boottime() + seconds
    (place / "end.new").write_text(repr(end), encoding="ascii")
    (place / "end.new").rename(place / "end")
    return end


def _start(options: Options, place: Path, rng: random.Random) -> subprocess.Popen[bytes]:
    task = {
        "store": options.store,
        "place": str(place),
        "seed": rng.getrandbits(32),
        "aio": rng.random() < 0.5,
    }
    command = [sys.executable, "-m", "holdfast.testing.guards.worker", json.dumps(task)]
    path = os.pathsep.join(filter(None, sys.path))
    return starting.popen(command, env=surroundings(PYTHONPATH=path))


def main(argv: list[str] | None = None) -> int:
    """The command: 0, or 1 if an answer was too old."""
    parser = argparse.ArgumentParser(
        prog="python -m holdfast.testing.guards.torture",
        description="Torture the refresh guards of a store, and judge every answer.",
    )
    parser.add_argument("store", help="the URL of the store")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long (60)")
    parser.add_argument("--processes", type=int, default=4, help="how many (4)")
    parser.add_argument("--every", type=float, default=0.5, help="seconds between strikes (0.5)")
    parser.add_argument("--seed", type=int, help="of an earlier run")
    args = parser.parse_args(argv)
    seed = random.SystemRandom().getrandbits(32) if args.seed is None else args.seed
    outcome = run(Options(args.store, seed, args.seconds, args.processes, args.every))
    sys.stdout.write(f"seed {seed}, {outcome}\n")
    return 0 if outcome.verdict.good else 1


if __name__ == "__main__":
    sys.exit(main())
