"""``acquire(timeout=T)`` returns in time, although other processes are killed and stopped."""

from __future__ import annotations

import time
from pathlib import Path

from holdfast.runtime.blocking import boottime
from holdfast.testing import lag
from holdfast.testing.faults import Subject, dice
from holdfast.testing.histories import GRACE_S, Recorder, judge_files, tell
from tests.torture.scale import times

WORKERS = 8
TIMEOUT_S = 0.1
LASTS_S = times(60, 4)
lag.watch()


def test_time_outs_are_kept_while_others_are_killed_and_stopped(url: str, tmp_path: Path) -> None:
    chance = dice("time-outs")
    folder = tmp_path / "histories"
    folder.mkdir()
    nemesis = Recorder(folder / "nemesis.jsonl", "nemesis")
    count = 0

    def start() -> tuple[int, Subject]:
        nonlocal count
        count += 1
        act = "contends_in_a_loop" if count % 2 else "contends"
        return count, Subject(f"tests.torture.acts:{act}", url, str(folder), count, TIMEOUT_S)

    # Given eight processes of both faces that repeatedly acquire one name
    begun = boottime()
    workers = [start() for _ in range(WORKERS)]
    stops = kills = 0
    try:
        for _, worker in workers:
            assert worker.hear() == "ready"
        end = time.monotonic() + LASTS_S
        while time.monotonic() < end:
            time.sleep(chance.random() * 0.3)
            number, victim = workers.pop(0)
            who = f"worker-{number}"
            if chance.random() < 0.3:
                # When one of them is killed at any point
                nemesis.happened("dead", who)
                victim.__exit__()
                kills += 1
                workers.append(start())
                assert workers[-1][1].hear() == "ready"
            else:
                # Or when it is stopped for a while, perhaps while it holds the file mutex
                nemesis.happened("stopped", who)
                victim.stop()
                time.sleep(chance.random() * 0.4)
                victim.go_on()
                nemesis.happened("continued", who)
                stops += 1
                workers.append((number, victim))
    finally:
        for number, worker in workers:
            nemesis.happened("dead", f"worker-{number}")
            worker.__exit__()
    # Then all tries but one in a thousand return in time, except for pauses of the machine, and no
    # other promise is broken
    grace = GRACE_S + lag.most(begun, TIMEOUT_S + GRACE_S)
    verdict = judge_files(*folder.glob("*.jsonl"), grace=grace)
    print(f"{kills} kills, {stops} stops\n{tell(verdict)}")
    verdict.demand()
    assert verdict.figures["busy"] > 10 * LASTS_S
    assert verdict.figures["held"] > LASTS_S
