"""A process stopped or killed while it holds the file mutex: others get errors in time, then
work."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from holdfast import Client, StoreUnavailable
from holdfast.core.model import Change, Claim, Kind, Leave, Renewal, Spec
from holdfast.core.ports import Store
from holdfast.runtime.blocking import boottime, run_sync
from holdfast.testing import lag
from holdfast.testing.faults import Subject
from tests.torture.scale import times

lag.watch()


@contextmanager
def sitting(url: str) -> Iterator[Subject]:
    """Yield a process that was stopped inside a verb, while it holds the file mutex."""
    with Subject("tests.torture.acts:holds_the_mutex", url) as sitter:
        assert sitter.hear() == "ready"
        sitter.stopped()
        yield sitter


CLAIM = Claim("0" * 32, Spec("mine", Kind.LOCK, 1, 1, 30.0, "me"))
VERBS: dict[str, Callable[[Store, float], Coroutine[Any, Any, Any]]] = {
    "join": lambda store, within: store.join(CLAIM, True, within),
    "renew": lambda store, within: store.renew([Renewal(CLAIM, 1, 30.0)], within),
    "turn": lambda store, within: store.turn(CLAIM, 1, within),
    "change": lambda store, within: store.change(Change(CLAIM, 1, 30.0), within),
    "leave": lambda store, within: store.leave(Leave("mine", CLAIM.id, 1), within),
    "join_free": lambda store, within: store.join_free([CLAIM], within),
    "leave_all": lambda store, within: store.leave_all([Leave("mine", CLAIM.id, 1)], within),
    "break_": lambda store, within: store.break_("mine", 1, within),
    "inspect": lambda store, within: store.inspect("", within),
    "resize": lambda store, within: store.resize("mine", 2, within),
}


def test_no_verb_passes_a_locked_file_mutex(url: str) -> None:
    with Client(url) as client:
        store = client._ctx.store
        client.lock("mine").acquire()
        with sitting(url) as sitter:
            for name, verb in VERBS.items():
                begun = boottime()
                with pytest.raises(StoreUnavailable, match=f"process {sitter.pid}"):
                    run_sync(verb(store, 0.05))
                assert 0.05 <= boottime() - begun < 0.3 + lag.since(begun), name
            # An acquire gets an error in time, too, which names the remedy
            begun = boottime()
            with pytest.raises(StoreUnavailable) as told:
                client.lock("x").acquire(timeout=0.5)
            assert boottime() - begun < 0.75 + lag.since(begun)
            said = f"{told.value} {told.value.__cause__} {told.value.__context__}"
            assert f"kill -CONT {sitter.pid}" in said
            # When the stopped process continues, then all clients work again
            sitter.go_on()
            fence = sitter.hear()
            with client.lock("x", timeout=10) as hold:
                assert hold.fence > fence
            assert sitter.end() == 0


def test_a_process_killed_inside_the_file_mutex_leaves_it_free(url: str) -> None:
    with Client(url) as client:
        for _ in range(times(20, 3)):
            with sitting(url) as sitter:
                sitter.kill()
                begun = boottime()
                with client.lock("x", timeout=5):
                    assert boottime() - begun < 0.25 + lag.since(begun)
