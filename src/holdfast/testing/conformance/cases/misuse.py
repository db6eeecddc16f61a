"""Misuse of ``with``: each end of a body frees its own hold, and no other."""

from __future__ import annotations

from ...faults.dice import dice
from ..arena import Arena
from ..misuse import Walk
from ..registry import case

#: The number of histories that one run plays, and the steps of each.
WALKS, STEPS = 2, 20


@case("lock", "semaphore", "read", "write", "election", "all")
async def no_end_of_a_with_frees_what_another_statement_holds(at: Arena) -> None:
    chance = dice("misuse of with")
    for _ in range(WALKS):
        await Walk(at, chance, STEPS).run()
