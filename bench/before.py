"""The cost of a change: ``./dev bench --before REV SUITE ...`` measures revision REV and this tree.

Both trees are measured in one run, in turns, so that other load of the machine affects both. Each
turn has separate processes, which import holdfast from that tree. A ratio is the quotient of the
medians of all turns. The spread of the turns shows how reliable the ratio is.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
#: Default number of measurements of each tree.
TURNS = 6
#: The beginning of the labels of rows that are compared; other rows don't depend on the change.
OURS = "holdfast"

#: (suite, table, row, column) -> a figure for each turn.
Figures = Mapping[tuple[str, str, str, str], list[float]]


def extract(revision: str, place: Path) -> Path:
    """Extract the sources of this revision into ``place``; return the folder with the packages."""
    archive = ["git", "-C", str(ROOT), "archive", revision, "src"]
    with subprocess.Popen(archive, stdout=subprocess.PIPE) as git:
        subprocess.run(["tar", "-x", "-C", str(place)], stdin=git.stdout, check=True)
    if git.returncode:
        raise SystemExit(f"bench: git knows no revision {revision!r} here")
    # The code that starts servers is that of this tree, and needs this tree's testing package.
    testing = place / "src" / "holdfast" / "testing"
    shutil.rmtree(testing, ignore_errors=True)
    testing.symlink_to(ROOT / "src" / "holdfast" / "testing")
    return place / "src"


def turn(source: Path, words: Sequence[str], place: Path) -> list[dict[str, Any]]:
    """Measure once with holdfast from the folder ``source``; return the tables."""
    told = place / "figures.json"
    path = os.pathsep.join([str(source), str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "bench", *words, "--json", str(told)],
        env={**os.environ, "PYTHONPATH": path},
        cwd=place,
        stdout=subprocess.DEVNULL,
        check=False,
    )
    if not told.exists():
        raise SystemExit(f"bench: the run with {source} ended with {done.returncode}")
    results: list[dict[str, Any]] = json.loads(told.read_text("utf-8"))["results"]
    return results


def figures(results: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Any, float]]:
    """Yield every figure of holdfast in these tables, with its key."""
    for table in results:
        for row in table["rows"]:
            if not row["label"].startswith(OURS):
                continue
            for column, figure in row["figures"].items():
                if figure["value"] is not None:
                    yield (table["suite"], table["title"], row["label"], column), figure["value"]


def compared(before: Figures, now: Figures) -> Iterator[str]:
    """Yield a line for each figure that both trees have: the ratio of now to before, the spread."""
    for key in before.keys() & now.keys():
        old, new = statistics.median(before[key]), statistics.median(now[key])
        if not old:
            continue
        ratios = sorted(b / a for a, b in zip(before[key], now[key], strict=False) if a)
        spread = f"{ratios[0]:.3f} to {ratios[-1]:.3f}"
        what = " · ".join(key)
        yield f"{what}: {old:.4g} -> {new:.4g}, ratio {new / old:.3f} (turns {spread})"


def run(revision: str, words: Sequence[str], turns: int = TURNS) -> int:
    """Measure both trees in turns, and print the ratios; return the exit status."""
    sums: dict[str, dict[Any, list[float]]] = {
        "before": defaultdict(list),
        "now": defaultdict(list),
    }
    with tempfile.TemporaryDirectory(prefix="holdfast-before-") as folder:
        place = Path(folder)
        sources = {"before": extract(revision, place), "now": ROOT / "src"}
        for number in range(turns):
            # The second one runs on a warmer machine, so the order alternates.
            names = ("before", "now") if number % 2 == 0 else ("now", "before")
            for name in names:
                with tempfile.TemporaryDirectory(dir=place) as own:
                    for key, value in figures(turn(sources[name], words, Path(own))):
                        sums[name][key].append(value)
            print(f"bench: turn {number + 1} of {turns} is done", file=sys.stderr, flush=True)
    lines = sorted(compared(sums["before"], sums["now"]))
    print(*lines, sep="\n")
    return 0 if lines else 1
