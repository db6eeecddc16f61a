"""The command as a whole: a quick run measures all suites within seconds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.stores import ARENAS
from holdfast.runtime.blocking import boottime
from holdfast.testing import lag
from tests.servers import mariadb_server, postgres_server, redis_server, zookeeper
from tests.tidy.tree import ROOT
from tests.torture.scale import FULL, LEFT_OUT

lag.watch()

#: A complete run takes many times longer. Its processes can be delayed more than this one.
QUICK_S_MAX = {"embedded": 80, "redis": 110, "postgres": 110, "mysql": 110, "zookeeper": 110}
#: Each skips the test without the program of the server.
PROGRAMS: dict[str, Callable[[], object]] = {
    "embedded": lambda: None,
    "redis": redis_server.program,
    "postgres": lambda: postgres_server.program("postgres"),
    "mysql": mariadb_server.program,
    "zookeeper": zookeeper.jar,
}


def bench(*words: str, **around: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "bench", *words],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), **around},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=115,
    )


def suites_of(arena: str) -> list[str]:
    """The suites to measure in an arena: in a usual run, each suite runs in one arena only."""
    if FULL:
        return [*ARENAS[arena].suites]
    chosen: dict[str, list[str]] = {name: [] for name in ARENAS}
    for suite in dict.fromkeys(suite for one in ARENAS.values() for suite in one.suites):
        having = [name for name, one in ARENAS.items() if suite in one.suites]
        chosen[min(having, key=lambda name: len(chosen[name]))].append(suite)
    LEFT_OUT["bench"] = "each suite is measured in one arena; `./dev test full` measures it in all"
    return chosen[arena]


@pytest.mark.usual(0)
@pytest.mark.parametrize("arena", list(ARENAS))
def test_a_quick_run_measures_everything_in_seconds(arena: str, tmp_path: Path) -> None:
    PROGRAMS[arena]()
    suites = suites_of(arena)
    begun = boottime()
    done = bench(*suites, "--store", arena, "--quick", "--json", str(tmp_path / "figures.json"))
    took, late = boottime() - begun, lag.since(begun)

    assert done.returncode == 0, done.stdout + done.stderr
    assert took < QUICK_S_MAX[arena] + late
    figures = json.loads((tmp_path / "figures.json").read_text(encoding="utf-8"))
    assert {one["suite"] for one in figures["results"]} == set(suites)
    for one in figures["results"]:
        rows = {row["label"]: row for row in one["rows"]}
        ours = [row for label, row in rows.items() if "holdfast" in label or label == "join"]
        assert ours, one["key"]
        assert all(row["figures"] and not row["error"] for row in rows.values()), one["key"]


def test_without_a_server_the_error_names_the_missing_program() -> None:
    done = bench("--store", "redis", "--quick", REDIS_SERVER="/no/such/redis-server")

    assert done.returncode == 69
    assert "no /no/such/redis-server on the PATH" in done.stderr


@pytest.mark.usual(2)
@pytest.mark.parametrize(
    "words",
    [
        ["nosuch"],
        ["--store", "redis", "loop"],
        ["--rounds", "0"],
        ["--store", "paper"],
        ["--quick", "--write-docs"],
    ],
)
def test_wrong_words_are_refused_before_anything_is_measured(words: list[str]) -> None:
    done = bench(*words)

    assert done.returncode != 0
    assert any(why in done.stderr for why in ("usage", "quick run", "has no case for"))
    assert "## " not in done.stdout
