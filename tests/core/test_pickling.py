"""A client pickles as its URL, so that a process pool can receive one; a hold does not pickle."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import importlib
import pickle
import pkgutil
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast import AsyncClient, CapacityMismatch, Client, HoldfastError


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return {"memory": f"memory://{tmp_path.name}", "sqlite": f"sqlite://{tmp_path}/locks.db"}[
        request.param
    ]


def twin_of(thing: Any) -> Any:
    return pickle.loads(pickle.dumps(thing))


def test_a_client_works_where_it_is_unpickled(url: str) -> None:
    with Client(url, ttl=7, label="me") as client, twin_of(client) as twin:
        assert (twin.url, twin.owner) == (client.url, client.owner)
        with client.lock("x") as hold:
            assert hold.ttl == 7
            assert twin.lock("x").acquire(blocking=False) is None
        with twin.lock("x") as again:
            assert again.ttl == 7


def test_a_client_for_asyncio_works_where_it_is_unpickled(url: str) -> None:
    async def main() -> None:
        async with AsyncClient(url, label="me") as client, twin_of(client) as twin:
            assert (twin.url, twin.owner) == (client.url, client.owner)
            async with client.lock("x"):
                assert await twin.lock("x").acquire(blocking=False) is None

    asyncio.run(main())


@pytest.mark.parametrize("primitive", ["lock", "rwlock", "semaphore", "election"])
def test_pickling_a_hold_is_refused_and_names_detach_and_adopt(url: str, primitive: str) -> None:
    with Client(url) as client:
        lock: Any = client.semaphore("x", 2) if primitive == "semaphore" else None
        lock = lock or getattr(client, primitive)("x")
        with getattr(lock, "write", lock) as hold:
            with pytest.raises(TypeError, match=r"'x'.*detach\(\).*adopt\(token\)"):
                pickle.dumps(hold)
            hold.check()


def errors(base: type[Any] = HoldfastError) -> list[type[Any]]:
    """Return every error class of the library, in any module."""
    if base is HoldfastError:
        for module in pkgutil.walk_packages(holdfast.__path__, "holdfast."):
            if not module.name.endswith("__main__"):
                with contextlib.suppress(ImportError):  # of a driver or a framework
                    importlib.import_module(module.name)
    return [base, *(one for cls in base.__subclasses__() for one in errors(cls))]


def test_every_error_goes_to_another_process_and_is_copied() -> None:
    found = errors()
    assert {"CapacityMismatch", "NotYet", "FenceRejected"} <= {cls.__name__ for cls in found}
    for cls in found:
        error: Any = cls.__new__(cls, "said")
        error.args = ("said",)
        vars(error).update(kind="lock", retry_in=1.5)
        error.add_note("noted")
        for again in (twin_of(error), copy.copy(error), copy.deepcopy(error)):
            assert (type(again), str(again), vars(again)) == (cls, "said", vars(error))


def test_an_error_that_is_met_comes_back_from_a_pool(url: str) -> None:
    with Client(url) as client, client.semaphore("x", 2):
        with pytest.raises(CapacityMismatch, match="'x' is in use as a semaphore of 2") as met:
            client.semaphore("x", 4).acquire(timeout=0)
        again = twin_of(met.value)
        assert (again.kind, again.capacity, str(again)) == ("semaphore", 2, str(met.value))
