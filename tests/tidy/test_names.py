"""Every public name is explained: in its docstring, and to the readers of the pages."""

from __future__ import annotations

import inspect
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

import holdfast
from tests.tidy.tree import ROOT, files

#: Without the face for asyncio: an example can't await, and says the same as its twin, which runs.
MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(holdfast.__path__, "holdfast.")
    if not module.name.endswith("__main__") and not module.name.startswith("holdfast.aio")
)
#: In a process of its own, because the bare `lock()` of an example lives as long as its process.
EXAMPLES = """
import doctest, importlib, sys, holdfast
public = {name: getattr(holdfast, name) for name in holdfast.__all__}
results = []
for name in sys.argv[1:]:
    module = importlib.import_module(name)
    seen = {**public, **vars(module)}
    results.append(doctest.testmod(module, globs=seen, optionflags=doctest.ELLIPSIS))
print(sum(result.attempted for result in results))
sys.exit(any(result.failed for result in results))
"""


def undocumented(thing: object, name: str) -> Iterator[str]:
    """The thing, and what a class of ours offers, where there is no docstring."""
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


def test_the_examples_in_the_docstrings_are_true() -> None:
    done = subprocess.run(
        [sys.executable, "-c", EXAMPLES, *MODULES],
        env={"PYTHONPATH": str(ROOT / "src"), "HOLDFAST_URL": "memory://"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout) > 3


def test_a_planted_name_without_docstring_is_found() -> None:
    class Bare:
        def method(self) -> None: ...

    Bare.method.__module__ = "holdfast.planted"
    assert list(undocumented(Bare, "Bare")) == ["Bare", "Bare.method"]
