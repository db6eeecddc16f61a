"""A part of the conformance kit, for a store on which another test runs all of it."""

from __future__ import annotations

from collections.abc import Collection

from holdfast.testing.conformance import PRIMITIVES, runs
from holdfast.testing.faces import FACES
from tests.ahead import Ahead
from tests.torture.scale import spread

AT_ONCE = 4


def play(
    store: str, url: str, each: int, but: Collection[str] = (), always: Collection[str] = ()
) -> None:
    """Play ``each`` runs of each primitive on each face, spread over the kit, `AT_ONCE` at a time.

    ``but``: the names of cases that are left out. ``always``: of cases that are never left out.
    """
    everything = [run for run in runs(store) if not run.case.alone and run.case.name not in but]
    chosen = [run for run in everything if run.case.name in always]
    for primitive in PRIMITIVES:
        for face in FACES:
            mine = [run for run in everything if (run.primitive, run.face) == (primitive, face)]
            assert mine
            chosen += [run for run in spread(mine, each) if run not in chosen]
    with Ahead(lambda run: run.on(url), chosen, AT_ONCE) as ahead:
        for run in chosen:
            try:
                ahead[run]
            except BaseException as wrong:
                wrong.add_note(f"in the run {run}")
                raise
