"""Writers are killed with -9 under load: no fence is given twice, none falls, no holds overlap."""

from __future__ import annotations

from pathlib import Path

from holdfast import Client
from holdfast.testing.faults import Subject, dice
from holdfast.testing.histories import Recorder, judge_files, tell
from tests.torture.scale import times

WRITERS = 4
NAMES = 3


def test_fences_over_kills_of_writers_under_load(url: str, tmp_path: Path) -> None:
    chance = dice("kills under load")
    folder = tmp_path / "histories"
    folder.mkdir()
    nemesis = Recorder(folder / "nemesis.jsonl", "nemesis")
    kills = times(100, 8)
    count = 0

    def start() -> tuple[int, Subject]:
        nonlocal count
        count += 1
        return count, Subject("tests.torture.acts:writes", url, str(folder), NAMES, count)

    # Given some processes that lock and unlock a few names as fast as they can
    writers = [start() for _ in range(WRITERS)]
    try:
        for _ in range(kills):
            # When one of them is killed at a random moment, and another one replaces it
            number, victim = writers.pop(0)
            assert victim.hear() == "ready"
            try:
                victim.hear(chance.random() * 0.3)
            except TimeoutError:
                nemesis.happened("dead", f"writer-{number}")
                victim.kill()
            victim.__exit__()
            writers.append(start())
    finally:
        for number, writer in writers:
            nemesis.happened("dead", f"writer-{number}")
            writer.__exit__()
    # Then no promise is broken
    verdict = judge_files(*folder.glob("*.jsonl"))
    print(tell(verdict))
    verdict.demand()
    assert verdict.figures["held"] > times(20 * kills, 0)
    # And all names are free
    with Client(url) as client:
        for name in range(NAMES):
            hold = client.lock(f"name-{name}").acquire(timeout=10)
            assert hold is not None
            hold.release()
        assert client.inspect() == []
