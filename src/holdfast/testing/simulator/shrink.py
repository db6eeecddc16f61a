"""Make a failing history smaller: fewer faults, claimants and actions, but the same violation."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from .running import Plan, Verdict


def smaller(plan: Plan) -> Iterator[Plan]:
    """Yield plans with one part less; plans without a large part come first."""
    faults, actors = plan.faults, plan.actors
    if len(faults) > 3:
        yield plan._replace(faults=faults[: len(faults) // 2])
        yield plan._replace(faults=faults[len(faults) // 2 :])
    for i in range(len(faults)):
        yield plan._replace(faults=faults[:i] + faults[i + 1 :])
    for i in range(len(actors)):
        if len(actors) > 1:
            yield plan._replace(actors=actors[:i] + actors[i + 1 :])
    for actions in (plan.actions // 2, plan.actions - 1):
        if 0 < actions < plan.actions:
            yield plan._replace(actions=actions)


def shrink(verdict: Verdict, run: Callable[[Plan], Verdict], tries: int = 2000) -> Verdict:
    """Return the verdict of the smallest plan found that violates the same invariant.

    ``run`` runs a plan; ``tries`` limits the number of runs.
    """
    if verdict.violation is None:
        return verdict
    best, wanted = verdict, verdict.violation.invariant
    found = True
    while found and tries > 0:
        found = False
        for plan in smaller(best.plan):
            tries -= 1
            other = run(plan)
            if other.violation is not None and other.violation.invariant == wanted:
                best, found = other, True
                break
    return best
