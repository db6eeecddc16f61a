"""Foreign work on the machine is detected, and waited for no longer than allowed."""

from __future__ import annotations

import multiprocessing
import os
import time

import pytest

from bench import machine


def burn(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def test_our_own_work_is_not_foreign() -> None:
    load = machine.Load()
    own = time.process_time()
    burn(0.3)
    own = time.process_time() - own

    foreign = load.foreign()

    passed = (time.monotonic() - load.begun) * (os.cpu_count() or 1)
    # The foreign part is below 1 by about this process's own part; ticks are 10 ms
    assert foreign is None or foreign <= 1 - own / passed + 0.1


def test_a_busy_stranger_is_seen() -> None:
    stranger = multiprocessing.get_context("fork").Process(target=burn, args=(20.0,))
    load = machine.Load()
    stranger.start()
    try:
        # Given a foreign process that this process hasn't waited for, so that its time is foreign
        deadline = time.monotonic() + 15
        while (foreign := load.foreign()) is not None and foreign < 0.5 / (os.cpu_count() or 1):
            assert time.monotonic() < deadline, foreign
            time.sleep(0.05)
    finally:
        stranger.kill()
        stranger.join()


class Seen(machine.Load):
    """A load whose foreign part is ``part``."""

    part = 0.0

    def foreign(self) -> float | None:
        return self.part


def loads(monkeypatch: pytest.MonkeyPatch, part: float, began_s: float = 0.0) -> Seen:
    monkeypatch.setattr(machine, "Load", Seen)
    monkeypatch.setattr(Seen, "part", part)
    seen = Seen()
    seen.begun -= began_s
    return seen


def test_quiet_waits_no_longer_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    loads(monkeypatch, 0.9)
    quiet = machine.Quiet(0.6)
    begun = time.monotonic()

    quiet.wait()
    quiet.wait()

    assert 0.5 < time.monotonic() - begun < 10
    assert quiet.left <= 0


def test_quiet_does_not_wait_on_an_idle_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    loads(monkeypatch, 0.01)
    quiet = machine.Quiet(600.0)

    quiet.wait()

    assert quiet.left > 599


def test_a_disturbed_reading_is_taken_again_at_the_expense_of_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disturbed = loads(monkeypatch, 0.5, began_s=3.0)
    quiet = machine.Quiet(5.0)

    assert quiet.spoilt(disturbed)
    assert quiet.left == pytest.approx(2.0, abs=0.5)
    assert quiet.spoilt(disturbed)
    assert not quiet.spoilt(disturbed)


def test_an_undisturbed_or_very_short_reading_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    quiet = machine.Quiet(5.0)

    assert not quiet.spoilt(loads(monkeypatch, 0.1, began_s=3.0))
    assert not quiet.spoilt(loads(monkeypatch, 0.9, began_s=0.1))


def test_the_machine_is_described_in_one_line() -> None:
    text = machine.describe()

    assert "cores" in text
    assert "Python" in text
    assert "\n" not in text
