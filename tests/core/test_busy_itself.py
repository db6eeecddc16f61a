"""A name that this process itself holds: the error names this process and the remedy."""

from __future__ import annotations

import pytest

from holdfast import Client, NotAcquired


def said(holder: Client, other: Client) -> str:
    """Return the error of an attempt to acquire a name that ``holder`` holds."""
    wanted = other.lock("x", timeout=0)
    with holder.lock("x"), pytest.raises(NotAcquired) as busy, wanted:
        pass
    return str(busy.value)


def test_the_error_names_this_process_as_the_holder_and_the_remedy() -> None:
    with Client("memory://itself") as client:
        assert "this process itself" in said(client, client)
        assert "reentrant=True" in said(client, client)


def test_it_does_not_say_so_of_another_process() -> None:
    with Client("memory://itself") as client, Client("memory://itself", label="other") as other:
        assert "this process itself" not in said(client, other)
