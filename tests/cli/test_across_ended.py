"""A signal arrives while `acquire` hands out its tokens: all names are held, or none is."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Generator

import pytest

from holdfast.cli import main
from holdfast.cli.across.ending import QUITTING
from holdfast.testing.faults.strike import Strike, points
from tests.cli.across import Here, handlers_kept, holder
from tests.torture.scale import part

NAMES = ("web", "db")
PLACES = (
    "holdfast.cli.across.take:_hand_out",
    "holdfast.core.across:detach",
    "holdfast.sync.client:Client.__exit__",
)


class Both:
    """A command that acquires both names, with a token file that doesn't exist yet."""

    def __init__(self, here: Here) -> None:
        self.here = here
        self.file = here.world.path("token")

    def acquire(self) -> int:
        return self.here("acquire", "--all", *NAMES, "--token-file", str(self.file))[0]

    def judge(self, code: int, where: str) -> None:
        """Check that the exit status is true; after this nothing is held."""
        if code == 0:
            assert all(holder(self.here.world, name).expires_in > 60 for name in NAMES), where
            self.release()
        assert not self.file.exists(), where
        assert not any(self.here.world.claims(name) for name in NAMES), where

    def release(self) -> None:
        assert self.here("release", "--token-file", str(self.file)) == (0, "", "")


@pytest.fixture
def both(here: Here) -> Generator[Both]:
    with handlers_kept():
        for name in QUITTING:  # ``nohup`` and a shell in the background have some ignored
            signal.signal(signal.Signals["SIG" + name], signal.SIG_DFL)
        yield Both(here)


@pytest.mark.parametrize("place", PLACES)
def test_the_exit_status_is_true_after_a_signal_at_any_point(both: Both, place: str) -> None:
    most = points(both.acquire, function=place)
    both.release()
    for number in part(range(1, most + 1), usual=6):
        with Strike(number, lambda: signal.raise_signal(signal.SIGTERM), function=place) as strike:
            code = both.acquire()
        assert strike.where
        assert code in (0, 128 + signal.SIGTERM), strike.where
        both.judge(code, strike.where)


@pytest.mark.parametrize("name", part(QUITTING, usual=2))
def test_a_second_signal_does_not_stop_the_release(both: Both, name: str) -> None:
    number = signal.Signals["SIG" + name]
    with contextlib.ExitStack() as stack:
        again = Strike(
            1, lambda: signal.raise_signal(number), function="holdfast.core.across:release"
        )

        def strike() -> None:
            stack.enter_context(again)
            signal.raise_signal(number)

        # when the first of the two holds has its full ttl
        stack.enter_context(Strike(3, strike, function="holdfast.core.across:renew"))
        code = both.acquire()
    assert again.where
    assert code == 128 + number
    both.judge(code, again.where)


def test_a_signal_behind_the_end_stops_nothing(here: Here) -> None:
    here.held()
    with handlers_kept():
        assert main(["acquire", "-qn", "job"]) == 75
        try:
            signal.raise_signal(signal.SIGTERM)
        except KeyboardInterrupt:
            pytest.fail("it would end with a traceback")
