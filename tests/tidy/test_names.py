"""Every public name is explained: in its docstring, and in the pages."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import pytest

import holdfast
from tests.tidy.covered import enough
from tests.tidy.tree import ROOT, files


def undocumented(thing: object, name: str) -> Iterator[str]:
    """Return the thing, and the public members of a class of holdfast, that lack a docstring."""
    if not inspect.getdoc(thing):
        yield name
    if not inspect.isclass(thing):
        return
    for member, value in inspect.getmembers(thing):
        home = getattr(value.fget if isinstance(value, property) else value, "__module__", "")
        offered = not member.startswith("_") and (callable(value) or isinstance(value, property))
        if offered and str(home).startswith("holdfast") and not inspect.getdoc(value):
            yield f"{name}.{member}"


def test_every_name_that_is_offered_is_there() -> None:
    enough("public names", holdfast.__all__)
    missing = [name for name in holdfast.__all__ if not hasattr(holdfast, name)]
    assert missing == []
    assert list(holdfast.__all__) == sorted(holdfast.__all__, key=str)


@pytest.mark.parametrize("name", holdfast.__all__)
def test_the_public_name_has_a_docstring(name: str) -> None:
    assert list(undocumented(getattr(holdfast, name), name)) == []


def test_every_public_name_is_mentioned_in_the_pages() -> None:
    pages = [ROOT / "README.md", *files(".md", under=ROOT / "docs")]
    words = {w for page in pages for w in re.findall(r"\w+", page.read_text(encoding="utf-8"))}
    assert [name for name in holdfast.__all__ if name not in words] == []


def test_a_planted_name_without_docstring_is_found() -> None:
    class Bare:
        def method(self) -> None: ...

    Bare.method.__module__ = "holdfast.planted"
    assert list(undocumented(Bare, "Bare")) == ["Bare", "Bare.method"]
