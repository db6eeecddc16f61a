"""Plant a bug: change the source text of a module at its import, in a separate process."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import NamedTuple

from .failure import NOTES, watched


class Edit(NamedTuple):
    """A replacement of one text by another in a module."""

    module: str
    old: str
    new: str


def edited(module: str, source: str, edits: Sequence[Edit]) -> str:
    """Return the source of this module after the edits that name it."""
    for edit in edits:
        if edit.module == module:
            if source.count(edit.old) != 1:
                raise LookupError(f"{module} has {source.count(edit.old)} times {edit.old!r}")
            source = source.replace(edit.old, edit.new)
    return source


def unknown(edits: Sequence[Edit]) -> tuple[Edit, ...]:
    """Return the edits with a call of an undefined name in each place: broken code, not a bug."""

    def call(text: str) -> str:
        return text[: len(text) - len(text.lstrip())] + "a_name_that_nobody_knows()\n"

    return tuple(edit._replace(new=call(edit.old)) for edit in edits)


class Loader(importlib.machinery.SourceFileLoader):
    """Loads a source file with some texts replaced; each must occur exactly once."""

    edits: Sequence[Edit] = ()

    def get_code(self, fullname: str):  # type: ignore[no-untyped-def]
        """Compile the edited text; never read or write the cache."""
        source = self.get_data(self.get_filename(fullname)).decode()
        source = edited(fullname, source, self.edits)
        notes = os.environ.get(NOTES)
        code = watched(source, notes) if notes else source
        return compile(code, self.get_filename(fullname), "exec", dont_inherit=True)


class Finder(importlib.abc.MetaPathFinder):
    """Finds the modules that the edits name."""

    def __init__(self, edits: Sequence[Edit]) -> None:
        self.edits = edits

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return a spec with our loader for a module that the edits name, else None."""
        mine = [e for e in self.edits if e.module == fullname]
        if not mine:
            return None
        found = importlib.machinery.PathFinder.find_spec(fullname, path)
        if found is None or found.origin is None:
            raise LookupError(f"{fullname} is no source file")
        loader = Loader(fullname, found.origin)
        loader.edits = mine
        return importlib.util.spec_from_file_location(
            fullname,
            found.origin,
            loader=loader,
            submodule_search_locations=found.submodule_search_locations,
        )


def plant(edits: Sequence[Edit]) -> None:
    """Import these modules with the bug after this call. None of them may be loaded yet."""
    for edit in edits:
        if edit.module in sys.modules:
            raise LookupError(f"{edit.module} is imported already")
    sys.meta_path.insert(0, Finder(edits))
