"""Helpers for tests of holds that last across commands."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator

import pytest

from holdfast import ClaimRecord
from holdfast.cli import main
from tests.cli.world import Started, World

#: The signals that end a command; a command can replace their handlers until its end.
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


@contextlib.contextmanager
def handlers_kept() -> Iterator[None]:
    """Restore the handlers of these signals after the body."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Here:
    """The command, called in this process: faster, for tests that need no separate process."""

    def __init__(self, world: World, capsys: pytest.CaptureFixture[str]) -> None:
        self.world = world
        self.capsys = capsys

    def __call__(self, *words: str) -> tuple[int, str, str]:
        with handlers_kept():
            code = main(words)
        return code, *self.capsys.readouterr()

    def held(self, name: str = "job") -> str:
        """Return the token of a hold that stays held."""
        hold = self.world.client.lock(name).acquire()
        assert hold is not None
        return hold.detach(ttl=600)


def acquire(world: World, *words: str, name: str = "job") -> str:
    """Acquire by the command; return the token of a hold that stays held."""
    code, out, err = world.run("acquire", *words, name)
    assert (code, err) == (0, "")
    return out.strip()


def holder(world: World, name: str = "job") -> ClaimRecord:
    (claim,) = world.claims(name)
    assert claim.held
    return claim


def told(started: Started) -> str:
    """Return the next line that the command prints to stderr."""
    assert started.process.stderr is not None
    return started.process.stderr.readline()
