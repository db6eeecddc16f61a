"""What looks for overlaps finds them, and what can't be had is never passed over in silence."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.interop import foreign
from tests.interop.crew import Crew, Place
from tests.interop.witness import Record
from tests.servers.redis_server import RedisServer


def told(who: str, *turns: list[float], trouble: tuple[str, ...] = ()) -> tuple[str, str, dict]:
    return who.rstrip("12"), who, {"turns": list(turns), "trouble": list(trouble)}


def test_two_at_once_are_found_whoever_came_between() -> None:
    record = Record.of(
        [told("ours1", [0, 1, 9], [9, 10, 11]), told("theirs1", [0, 2, 3], [3, 8.5, 8.6])]
    )
    assert len(record.overlaps()) == 2
    assert "theirs1 came in 7.000000 s before ours1 left" in record.overlaps()[0]


def test_turns_one_after_the_other_are_fine() -> None:
    record = Record.of(
        [told("ours1", [0, 1, 2]), told("theirs1", [0, 2, 3]), told("ours2", [3.5, 4, 5])]
    )
    assert record.overlaps() == []
    assert record.handed("theirs") == [0]
    assert record.handed("ours") == []  # it had not waited
    assert record.longest_wait() == 2


def test_a_lock_that_deletes_what_it_finds_is_found_out_by_both_witnesses(
    crew: Crew, shared_redis: RedisServer, own_name: str
) -> None:
    place = Place(shared_redis.url, "")
    sides = {
        "ours": [crew.get("careless", place, 0)],
        "theirs": [crew.get("careless", place, 1)],
    }
    record = crew.contend(
        sides, own_name, kind="lock", target=1000, seconds=2.0, wait=1.0, lease=1.0,
        inside={"ours": (0.005, 0.01), "theirs": (0.005, 0.01)},
        pause={"ours": (0.0, 0.005), "theirs": (0.0, 0.005)},
    )  # fmt: skip
    assert record.overlaps()
    assert any("was inside" in one for one in record.trouble)


@pytest.mark.parametrize("ci", [True, False])
@pytest.mark.parametrize("tools", [True, False])
def test_what_is_missing_is_failed_only_where_it_could_be_fetched(
    ci: bool, tools: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CI", "true" if ci else "")
    monkeypatch.setattr(shutil, "which", lambda tool, path: tool if tools else None)
    expected = pytest.fail.Exception if ci and tools else pytest.skip.Exception
    with pytest.raises(expected, match="Redisson"):
        foreign.require(tmp_path, (), "Redisson", "java", "mvn")
