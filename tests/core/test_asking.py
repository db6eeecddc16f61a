"""When a request without an answer is repeated, and what is then known about its copies."""

from __future__ import annotations

import math

import pytest

from holdfast import Client, StoreUnavailable
from holdfast.core.asking import Asking
from holdfast.core.context import Context
from holdfast.runtime.blocking import run_sync

BEGUN = 100.0


@pytest.fixture
def ctx(locks: Client, monkeypatch: pytest.MonkeyPatch) -> Context:
    """A context whose time moves only while it sleeps; no part of a pause is random."""
    ctx, now = locks._ctx, [BEGUN]

    async def sleep(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(ctx, "now", lambda: now[0])
    monkeypatch.setattr(ctx.runtime, "sleep", sleep)
    monkeypatch.setattr(ctx.runtime, "jitter", lambda: 1.0)
    return ctx


def test_no_copy_is_sent_at_the_time_limit_or_later(ctx: Context) -> None:
    sent, left = [], []

    async def silent(within: float) -> None:
        sent.append(ctx.now() - BEGUN)
        left.append(within)
        raise StoreUnavailable("planted: no answer")

    with pytest.raises(StoreUnavailable, match="planted"):
        run_sync(Asking(ctx).insist(silent, BEGUN + 1.0))
    assert sent == pytest.approx([0.0, 0.04, 0.12, 0.28, 0.6])
    assert left == pytest.approx([1.0, 0.96, 0.88, 0.72, 0.4])


def test_the_first_sending_counts_until_an_answer_shows_that_nothing_was_done(
    ctx: Context,
) -> None:
    asking = Asking(ctx)
    asking.sends()
    run_sync(asking.again(StoreUnavailable("planted: no answer"), math.inf))
    again = asking.sends()
    asking.answered()
    assert (asking.first, asking.heard, asking.suspect) == (BEGUN, again, True)
    asking.answered(nothing=True)
    assert (asking.first, asking.suspect) == (again, True)  # the first copy can still arrive
    asking.forget()
    asking.sends()
    asking.answered(nothing=True)
    assert (asking.first, asking.suspect) == (None, False)
