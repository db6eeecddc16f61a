"""The check finds overlaps, and a missing program is never passed over silently."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop import foreign
from tests.interop.crew import Crew, Place
from tests.interop.witness import Record
from tests.servers.redis_server import RedisServer


def told(who: str, *turns: list[float], trouble: tuple[str, ...] = ()) -> tuple[str, str, dict]:
    return who.rstrip("12"), who, {"turns": list(turns), "trouble": list(trouble)}


def test_an_overlap_is_found_although_another_hold_lies_between() -> None:
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
def test_what_is_missing_is_skipped_on_a_laptop_and_fails_in_ci(
    ci: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CI", "true" if ci else "")
    foreign.require("Redisson 4.7.0", tmp_path)
    with pytest.raises(pytest.fail.Exception if ci else pytest.skip.Exception, match="Redisson"):
        foreign.require("Redisson 4.7.0", tmp_path, tmp_path / "classes")
