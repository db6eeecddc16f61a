"""The hook around the verbs is called at each step, and random numbers can be drawn again."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from holdfast import AsyncClient, Client
from holdfast.testing.faults import Step, aim, dice


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite://{tmp_path}/locks.db"


def test_the_hook_is_called_at_every_step_of_a_blocking_verb(url: str) -> None:
    steps: list[Step] = []
    with Client(url) as client:
        with aim(client, steps.append):
            client.lock("x").acquire().release()
        # Then the hook was called at all steps; a blocking verb has no step between the two
        assert steps == [(v, w) for v in ("join", "leave") for w in ("before", "after")]
        client.lock("x").acquire().release()
        assert len(steps) == 4


def test_the_hook_is_called_at_every_step_of_an_awaited_verb(url: str) -> None:
    steps: list[Step] = []

    async def main() -> None:
        async with AsyncClient(url) as client:
            with aim(client, steps.append):
                async with client.lock("x"):
                    steps.append(Step("inspect", "after"))

    asyncio.run(main())
    whole = ("before", "sent", "after")
    expected = [("join", w) for w in whole] + [("inspect", "after")] + [("leave", w) for w in whole]
    assert steps == expected


def test_dice_say_their_seed_and_can_be_had_again(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = dice("a test")
    said = capsys.readouterr().out
    seed = said.partition("HOLDFAST_SEED=")[2].rstrip(")\n")
    assert said == f"a test: seed {seed} (again: HOLDFAST_SEED={seed})\n"
    monkeypatch.setenv("HOLDFAST_SEED", seed)
    numbers = [first.random() for _ in range(3)]
    again = dice("a test")
    assert [again.random() for _ in range(3)] == numbers
    assert dice("another").random() not in numbers
