"""Damage to every file of the embedded store, one file at a time, between any two verbs."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from holdfast.testing.faults.damage import ACTS, KINDS, Case, cases
from holdfast.testing.surroundings import surroundings
from tests.torture.scale import seed_of, times

#: Rounds in a usual run, out of all possible rounds.
USUAL = 5
#: Number of processes, and of rounds that each process plays at the same time.
PROCESSES, AT_ONCE = 4, 4
#: A number of items that is greater than the number of files in a store.
ITEMS = 24
#: These kinds of damage truncate files, which ends every process that has mapped them.
CUTS = {"emptied", "truncated"}
ROOT = Path(__file__).parents[3]
#: Maximum seconds of a round: each of its acts has a time limit.
ROUND_S = 240.0


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.stores.sqlite.damages", *arguments],
        capture_output=True,
        text=True,
        timeout=ROUND_S,
        check=False,
        cwd=ROOT,
        env=surroundings(),
    )


def _played(folder: Path, some: Sequence[Case]) -> list[str]:
    """Play these rounds in one process, and return the errors found."""
    run = _run(str(folder), *map(json.dumps, some))
    lines = [json.loads(line) for line in run.stdout.splitlines()]
    wrong = [f"{some}: {damaged}: {one}" for damaged, found in lines for one in found]
    if run.returncode == -signal.SIGBUS and len(some) == 1 and some[0].kind in CUTS:
        # The docs describe this death. Every other case that ends with SIGBUS is an error.
        (files,) = folder.iterdir()
        run = _run("--after", str(files))
        wrong += [f"{some}: after SIGBUS: {one}" for one in json.loads(run.stdout)[1]]
    elif len(lines) != len(some):
        wrong.append(f"{some}: ended with {run.returncode}: {run.stderr[-2000:]}")
    return wrong


def played(folder: Path, chosen: Sequence[Case]) -> list[str]:
    """Play these rounds, some at the same time, and return the errors found."""
    groups = [[one] for one in chosen if one.kind in CUTS]
    others = [one for one in chosen if one.kind not in CUTS]
    groups += [others[at : at + AT_ONCE] for at in range(0, len(others), AT_ONCE)]
    folders = [folder / str(number) for number in range(len(groups))]
    for one in folders:
        one.mkdir()
    with ThreadPoolExecutor(PROCESSES) as pool:
        return [wrong for found in pool.map(_played, folders, groups) for wrong in found]


def test_a_damaged_file_is_refused_clearly_or_healed_in_time(tmp_path: Path) -> None:
    seed = seed_of("damage to files")
    chosen = list(cases(seed, ITEMS))[: times(len(ACTS) * ITEMS * len(KINDS), USUAL)]
    wrong = played(tmp_path, chosen)
    assert not wrong, "\n".join(wrong)


def test_without_damage_the_scenario_plays_to_its_end(tmp_path: Path) -> None:
    assert played(tmp_path, [Case(-1, 0, "removed", 1)]) == []
