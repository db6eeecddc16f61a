"""The hook around the verbs: it is called at each step, and its action happens there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast import AsyncClient, Client, StoreUnavailable
from holdfast.testing.faults import Step, aim


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite://{tmp_path}/locks.db"


def test_the_hook_is_called_at_every_step_of_a_blocking_verb(url: str) -> None:
    steps: list[Step] = []
    with Client(url) as client:
        with aim(client, steps.append):
            client.lock("x").acquire().release()
        # Then the hook was called at all steps, in order; a blocking verb has no step between the
        # two
        assert steps == [(v, w) for v in ("join", "leave") for w in ("before", "after")]
        # And after the block the hook is no longer called
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


def at(wanted: tuple[str, str], act: Callable[[], object]) -> Callable[[Step], None]:
    """A hook that acts at one step, once."""
    left = [True]

    def hook(step: Step) -> None:
        if step == wanted and left:
            left.pop()
            act()

    return hook


def lose() -> None:
    raise StoreUnavailable("lost, on purpose")


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("verb", ["join", "leave"])
def test_a_lost_request_or_reply_is_made_good(verb: str, when: str, url: str) -> None:
    with Client(url) as client, Client(url) as other:
        # When a request, or its reply, is lost once
        with aim(client, at((verb, when), lose)):
            hold = client.lock("x").acquire(timeout=5)
            assert hold is not None
            # Then one hold exists, and it is released
            assert [len(line.holders) for line in other.inspect()] == [1]
            assert hold.release()
        assert other.inspect() == []


def test_what_is_cancelled_between_sending_and_reply_was_sent(url: str) -> None:
    async def main() -> None:
        async with AsyncClient(url) as client, AsyncClient(url) as other:
            await other.lock("warm").locked()

            def cancel() -> None:
                task = asyncio.current_task()
                assert task is not None
                task.cancel()

            seen: list[str] = []

            def watch(step: Step) -> None:
                seen.append(":".join(step))
                if step == ("join", "sent"):
                    cancel()

            with aim(client, watch):
                task = asyncio.create_task(client.lock("x").acquire())
                with pytest.raises(asyncio.CancelledError):
                    await task
            # Then the request was sent, its reply was not used, and the claim was withdrawn
            assert seen[:2] == ["join:before", "join:sent"]
            assert "join:after" not in seen
            assert "leave:sent" in seen
            assert await other.inspect() == []

    asyncio.run(main())
