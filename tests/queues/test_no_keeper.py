"""A take whose deliveries can't be renewed, because no thread can be started for that."""

from __future__ import annotations

import gc
import warnings

import pytest

from holdfast import Client
from holdfast.errors import HoldfastError
from holdfast.runtime.starting.blocking import DaemonThread


def test_deliveries_that_cannot_be_renewed_are_released_without_a_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(thread: DaemonThread) -> None:
        raise RuntimeError("can't start new thread")

    with Client("memory://no-keeper") as client:
        queue = client.queue("q")
        queue.put_many([{"payload": number, "group": str(number)} for number in range(3)])
        with monkeypatch.context() as patched, warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            patched.setattr(DaemonThread, "start", refused)
            with pytest.raises(HoldfastError, match="then take from it again"):
                queue.take_many(3, 0)
            gc.collect()
        with client.lock("other").acquire():  # the next call passes warnings on
            assert [str(one.message) for one in caught] == []
        assert not client._ctx.orphans
        record = queue.stats()
        assert (record.waiting, record.taken) == (3, 0)
