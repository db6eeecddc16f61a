"""A client pickles as its URL, so that a process pool can receive one; a hold does not pickle."""

from __future__ import annotations

import contextlib
import copy
import importlib
import pickle
import pkgutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast import AsyncClient, CapacityMismatch, Client, HoldfastError
from holdfast.testing.faces import FACES

MAKES: dict[str, Callable[[Any], Any]] = {
    "lock": lambda locks: locks.lock("x"),
    "semaphore": lambda locks: locks.semaphore("x", 2),
    "rwlock": lambda locks: locks.rwlock("x"),
    "read": lambda locks: locks.rwlock("x").read,
    "election": lambda locks: locks.election("x"),
    "all": lambda locks: locks.all("x", "y"),
    "queue": lambda locks: locks.queue("x"),
    "guard": lambda locks: locks.guard("x", ttl=1),
}


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return {"memory": f"memory://{tmp_path.name}", "sqlite": f"sqlite://{tmp_path}/l.db"}[
        request.param
    ]


def twin_of(thing: Any) -> Any:
    return pickle.loads(pickle.dumps(thing))


@pytest.mark.parametrize("face", FACES)
def test_a_client_works_where_it_is_unpickled(face: str, url: str) -> None:
    async def main() -> None:
        async with FACES[face].client(url, ttl=7, label="me") as client, twin_of(client) as twin:
            assert (twin.url, twin.owner) == (client.url, client.owner)
            async with client.lock("x") as hold:
                assert hold.ttl == 7
                assert await twin.lock("x").acquire(blocking=False) is None
            async with twin.lock("x") as again:
                assert again.ttl == 7

    FACES[face].run(main, 60)


@pytest.mark.parametrize("make", ["lock", "read", "semaphore", "election"])
def test_pickling_a_hold_is_refused_and_names_detach_and_adopt(url: str, make: str) -> None:
    with Client(url) as client, MAKES[make](client) as hold:
        with pytest.raises(TypeError, match=r"'x'.*detach\(\).*adopt\(token\)"):
            pickle.dumps(hold)
        hold.check()


@pytest.mark.parametrize("make", MAKES)
@pytest.mark.parametrize("client", [Client, AsyncClient])
def test_pickling_an_object_of_a_client_names_the_alternative(client: Any, make: str) -> None:
    with pytest.raises(TypeError, match=r"'x'.*pickled.*Send the client"):
        pickle.dumps(MAKES[make](client("memory://pickled")))


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
