"""A separate store for each test, with the command ``holdfast`` on the path."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast import Client
from holdfast.cli import main
from tests.cli.across import Here
from tests.cli.terminal import Terminal
from tests.cli.world import World

Say = Callable[..., tuple[int, str, str]]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A private store; processes that the test started are killed after it."""
    made = World(tmp_path)
    yield made
    made.end()


@pytest.fixture
def terminal(world: World) -> Iterator[Terminal]:
    sat_at = Terminal(world.env, str(world.folder))
    yield sat_at
    sat_at.end()


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """A client of a private memory store, which the command uses, too."""
    url = f"memory://{os.urandom(8).hex()}"
    monkeypatch.setenv("HOLDFAST_URL", url)
    with Client(url) as made:
        yield made


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Say:
    """Run a command line in this process; return its exit status, output and errors."""

    def said(*words: str) -> tuple[int, str, str]:
        code = main(words)
        return code, *capsys.readouterr()

    return said


@pytest.fixture
def here(world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Here:
    monkeypatch.setenv("HOLDFAST_URL", world.url)
    monkeypatch.delenv("HOLDFAST_TOKEN", raising=False)
    return Here(world, capsys)
