"""An object whose constructor failed is finalized without an error."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

import pytest

import holdfast


def _modules() -> Iterator[str]:
    for module in pkgutil.walk_packages(holdfast.__path__, "holdfast."):
        if not module.name.startswith("holdfast.testing") and "__main__" not in module.name:
            yield module.name


def finalized() -> list[type]:
    """Return every class of the library that defines a finalizer."""
    found = {}
    for name in _modules():
        module = importlib.import_module(name)
        for one in vars(module).values():
            if isinstance(one, type) and one.__module__ == name and "__del__" in vars(one):
                found[f"{name}.{one.__qualname__}"] = one
    return [found[key] for key in sorted(found)]


FINALIZED = finalized()


def test_the_classes_are_found() -> None:
    assert {"Session", "Alarm", "Gate", "Client", "AsyncClient"} <= {
        one.__name__ for one in FINALIZED
    }


@pytest.mark.parametrize("made", FINALIZED, ids=lambda made: made.__name__)
def test_an_object_whose_constructor_failed_at_once_is_finalized(made: type) -> None:
    """Given an object without any field, when it is finalized, then nothing is raised.

    A Ctrl-C or a lack of memory at the first line of ``__init__`` leaves such an object.
    """
    one = made.__new__(made)
    one.__del__()  # type: ignore[attr-defined]
