"""What a planted bug is, and the modules that it may be planted in."""

from __future__ import annotations

from typing import NamedTuple

from .plant import Edit

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
    #: Look from this seed on first: there it was found before.
    near: int = 0


def bug(name: str, caught_by: str, *edits: tuple[str, str, str], near: int = 0) -> Mutant:
    """A planted bug; ``caught_by`` names invariants, with a bar between them."""
    return Mutant(name, tuple(caught_by.split("|")), tuple(Edit(*e) for e in edits), near)
