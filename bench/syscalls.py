"""Counts the system calls of a pair (acquire and release) with strace, if strace is installed.

The same program runs twice, with two numbers of pairs. The difference of the counts belongs to the
additional pairs; the calls of start and end cancel out. The program is ``python -m bench.syscalls
ARENA LABEL PAIRS PLACE``.
"""

from __future__ import annotations

import inspect
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from .model import Reading

FEW, MORE = 100, 600
_WITHIN_S = 120.0


def reading(arena: str, label: str) -> Reading:
    """Return the system calls per pair; nothing if strace is missing or may not trace."""
    if shutil.which("strace") is None:
        return {}
    counts = [_count(arena, label, pairs) for pairs in (FEW, MORE)]
    if None in counts:
        return {}
    few, more = (count or 0 for count in counts)
    return {"syscalls": [round((more - few) / (MORE - FEW), 1)]}


def _count(arena: str, label: str, pairs: int) -> int | None:
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as place:
        said = Path(place, "strace")
        program = [sys.executable, "-m", "bench.syscalls", arena, label, str(pairs), place]
        done = subprocess.run(
            ["strace", "-f", "-c", "-o", str(said), *program],
            cwd=Path(__file__).parents[1],
            capture_output=True,
            timeout=_WITHIN_S,
            check=False,
        )
        return total(said.read_text(encoding="utf-8")) if done.returncode == 0 else None


def total(table: str) -> int | None:
    """Return the number of calls in the last line of the output of ``strace -c``.

    >>> total("100.00    0.001052           7       134         2 total")
    134
    """
    lines = table.strip().splitlines()
    words = lines[-1].split() if lines else []
    return int(words[3]) if words[-1:] == ["total"] else None


def main(arena: str, label: str, pairs: int, place: Path) -> None:
    """Do `FEW` pairs to warm up, and then ``pairs`` pairs."""
    from .stores import ARENAS

    taker = next(one for one in ARENAS[arena].contenders if one.label == label)

    async def work() -> None:
        grip = taker.open(place)
        pair = grip.pair()
        for _ in range(FEW + pairs):
            answer = pair()
            if inspect.isawaitable(answer):
                await answer
        await grip.close()

    taker.drive(work())


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]))
