"""An object whose constructor failed is finalized without an error."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

import holdfast


def finalized() -> list[type]:
    """Return every class of the library that defines a finalizer."""
    found = {}
    for module in pkgutil.walk_packages(holdfast.__path__, "holdfast."):
        if module.name.startswith("holdfast.testing") or "__main__" in module.name:
            continue
        for one in vars(importlib.import_module(module.name)).values():
            if isinstance(one, type) and one.__module__ == module.name and "__del__" in vars(one):
                found[f"{module.name}.{one.__qualname__}"] = one
    return [found[key] for key in sorted(found)]


FINALIZED = finalized()


def test_the_classes_are_found() -> None:
    assert {"Session", "Alarm", "Gate", "Client", "AsyncClient"} <= {
        one.__name__ for one in FINALIZED
    }


@pytest.mark.parametrize("made", FINALIZED, ids=lambda made: made.__name__)
def test_an_object_whose_constructor_failed_at_once_is_finalized(made: type) -> None:
    """A Ctrl-C or a lack of memory at the first line of ``__init__`` leaves such an object."""
    made.__new__(made).__del__()
