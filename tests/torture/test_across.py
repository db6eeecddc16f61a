"""A hold across commands, in scripts whose commands are killed at any point."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import pairwise
from operator import itemgetter

import pytest

from holdfast.testing.promise import PromiseBroken, promised
from tests.cli.world import ROOT
from tests.shared_stores import url_of
from tests.torture.scale import FULL, seed_of, times
from tests.torture.script import TTL_S

#: Seconds for which a machine can pause, or let one command wait for the others.
LATE_S = 60.0
STORES = ("sqlite", "redis", "postgresql", "mysql") if FULL else ("sqlite",)


@pytest.mark.parametrize("store", STORES)
def test_scripts_with_killed_commands_never_hold_at_once(
    store: str, own_name: str, request: pytest.FixtureRequest
) -> None:
    url = url_of(store, request, own_name)
    seed = seed_of("scripts")
    words = [sys.executable, "-m", "tests.torture.script", url, own_name, str(times(200, 3))]
    started = [
        subprocess.Popen([*words, f"{seed} {nth}"], stdout=subprocess.PIPE, text=True, cwd=ROOT)
        for nth in range(times(8, 3))
    ]
    said = [line for one in started for line in one.communicate()[0].splitlines()]
    assert [one.returncode for one in started] == [0] * len(started)
    judge([json.loads(line) for line in said])


def judge(tries: list[dict[str, float]]) -> None:
    """Check that no two held at once, fences rose, and no gap was longer than the dead holders'
    ttl."""
    got = sorted(
        (one for one in tries if "released" in one or "until" in one), key=itemgetter("from")
    )
    # A hold that expired before a command checked it was still granted.
    holds = [one for one in got if "until" in one]
    gaps = [b["from"] - a.get("until", a["from"]) for a, b in pairwise(got)]
    with promised("no two scripts hold it at once"):
        assert [(a, b) for a, b in pairwise(holds) if a["until"] > b["from"]] == []
    with promised("a later hold has a greater fence"):
        assert [(a, b) for a, b in pairwise(holds) if a["fence"] >= b["fence"]] == []
    assert {one["code"] for one in tries} <= {0, -9}
    assert len(got) > len(tries) / 3
    left = [one for one in tries if "released" not in one]
    for (a, b), gap in zip(pairwise(got), gaps, strict=True):
        dead = sum(a["from"] <= one["from"] and one["asked"] <= b["from"] for one in left)
        assert gap < (dead + 1) * TTL_S + LATE_S, (a, b)


def hold(begin: float, end: float, fence: int) -> dict[str, float]:
    return {"asked": begin, "from": begin, "until": end, "fence": fence, "code": 0, "released": 0}


def test_the_judge_sees_two_at_once_and_a_fence_that_falls() -> None:
    judge([hold(0, 1, 1), hold(1, 2, 2)])
    for wrong in ([hold(0, 2, 1), hold(1, 3, 2)], [hold(0, 1, 2), hold(1, 2, 1)]):
        with pytest.raises(PromiseBroken):
            judge(wrong)
    with pytest.raises(AssertionError, match="100"):
        judge([hold(0, 1, 1), hold(100, 101, 2)])
