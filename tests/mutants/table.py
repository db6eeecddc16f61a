"""The type of a planted bug of the core, and the modules in which such bugs are planted."""

from __future__ import annotations

from typing import NamedTuple

from .plant import Edit

ASKING = "holdfast.core.asking"
CLAIMS = "holdfast.core.claims"
HOLD = "holdfast.core.hold"
KEEPER = "holdfast.core.keeper"
MULTI = "holdfast.core.multi"
TOGETHER = "holdfast.core.together"
POLICY = "holdfast.core.policy"
CONTEXT = "holdfast.core.context"
ADOPT = "holdfast.core.adopt"
LEASE = "holdfast.core.lease"
RWLOCK = "holdfast.core.rwlock"
LINE = "holdfast.stores.memory.line"
SERVER = "holdfast.testing.simulator.server"
RUNTIME = "holdfast.testing.simulator.runtime"


class Mutant(NamedTuple):
    """A planted bug."""

    name: str
    caught_by: tuple[str, ...]
    edits: tuple[Edit, ...]
    #: The seed at which the search begins; an earlier search found the bug there.
    near: int = 0


def bug(name: str, caught_by: str, *edits: tuple[str, str, str], near: int = 0) -> Mutant:
    """Return a planted bug; ``caught_by`` names invariants, separated by bars."""
    return Mutant(name, tuple(caught_by.split("|")), tuple(Edit(*e) for e in edits), near)
