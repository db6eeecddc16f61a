"""A copy of the environment, while another thread changes it."""

from __future__ import annotations

import os

import pytest

from holdfast.testing.surroundings import surroundings


def test_a_change_by_another_thread_ends_no_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_PASSING", "x")
    read = type(os.environ).__getitem__

    def vanish(environment: object, key: str) -> str:
        if key == "HOLDFAST_PASSING":  # as if it was removed after its name was read
            del os.environ[key]
        return read(os.environ, key)

    monkeypatch.setattr(type(os.environ), "__getitem__", vanish)
    copy = surroundings(HOLDFAST_MORE="y")
    assert "HOLDFAST_PASSING" not in copy
    assert copy["HOLDFAST_MORE"] == "y"
    assert copy["PATH"] == os.environ["PATH"]
