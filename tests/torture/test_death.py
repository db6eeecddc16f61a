"""A holder is killed with -9: the next client holds immediately."""

from __future__ import annotations

from holdfast import Client
from holdfast.testing.faults import Subject
from tests.torture.scale import times


def test_a_try_after_the_holders_death_succeeds_at_once(url: str) -> None:
    with Client(url) as client:
        for _ in range(times(50, 3)):
            with Subject("tests.torture.acts:holds", url, "x") as holder:
                fence = holder.hear()
                assert client.lock("x").acquire(blocking=False) is None
                holder.kill()
                hold = client.lock("x").acquire(blocking=False)
                assert hold is not None
                assert hold.fence > fence
                assert hold.release()
