"""The judge of damage finds broken promises, on a store that breaks them on purpose."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from holdfast import Client
from holdfast.testing.faults.damage import ACTS, Case, Round


class Evil:
    """A `holdfast.testing.faults.damage.Ground` whose damage is worse than any real damage."""

    overlap_s = 0.0
    calm_s = 1.0

    def __init__(self, folder: Path, deed: Callable[[Client, str], object]) -> None:
        self.url = f"sqlite://{folder}/evil.db"
        self._deed = deed
        self._client = Client(self.url)
        self._token = ""

    def items(self, token: str) -> Sequence[str]:
        """Return the lock of the round."""
        self._token = token
        return [f"{token}-lock"]

    def damage(self, item: str, kind: str, chance: random.Random) -> bool:
        """Run the deed on the lock."""
        self._deed(self._client, item)
        return True

    def close(self) -> None:
        """End the client."""
        self._client.close()


def judged(folder: Path, act: str, deed: Callable[[Client, str], object]) -> str:
    """Run the deed before this act, and return the errors that the judge finds."""
    ground = Evil(folder, deed)
    number = [one.__name__ for one in ACTS].index(act)
    verdict = Round(ground, Case(number, 0, "removed", 1)).play()
    ground.close()
    return "\n".join(verdict.wrong)


def take_from_the_holder(client: Client, name: str) -> None:
    """Break all holds; a holder notices this only after a third of its ttl."""
    for line in client.inspect(name, exact=True):
        for claim in line.claims:
            client.break_(name, claim.fence)


def keep_for_a_minute(client: Client, name: str) -> None:
    """Hold the lock for a minute, so that no other client can acquire it."""
    hold = client.lock(name, ttl=60).acquire(timeout=10)
    assert hold is not None
    hold.detach()


def test_two_valid_holders_are_found(tmp_path: Path) -> None:
    # In some rounds the holder renews and notices the loss between the deed and the try
    rounds = (judged(tmp_path, "try_it", take_from_the_holder) for _ in range(5))
    assert any("two holders" in one for one in rounds)


def test_a_name_that_can_no_longer_be_acquired_is_found(tmp_path: Path) -> None:
    assert "the lock is locked" in judged(tmp_path, "invalidate", keep_for_a_minute)


def test_an_exception_of_a_foreign_type_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spoil(client: Client, name: str) -> None:
        monkeypatch.setattr(Client, "inspect", lambda *_, **__: [].pop())

    assert "look: raw exception IndexError" in judged(tmp_path, "look", spoil)


def test_a_round_without_harm_is_well(tmp_path: Path) -> None:
    assert judged(tmp_path, "look", lambda client, name: None) == ""
