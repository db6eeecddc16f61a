"""The findings of an examination of a store (``holdfast doctor``), and its course.

A store's doctor is a table: the subject, and the check that looks at it. A check says what it has
found by `ok`, `warn` or `fail`: once, several times or not at all.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal, NamedTuple, TypeVar

V = TypeVar("V")
#: Number of requests whose time is taken, and what one may take, in the middle and at worst.
ROUNDS, SLOW_S, WORST_S = 20, 0.05, 0.25
#: Clocks that follow the same time differ by milliseconds; with this difference, one follows none.
APART_S = 1.0
#: This part of the connections, or of the memory, is in use: worth a word.
FULL = 0.9


class Level(enum.StrEnum):
    """How it stands: as it should, worth a look, or unusable."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class Finding(NamedTuple):
    """One thing that was looked at. ``remedy`` says what to do, unless all is well."""

    level: Level
    subject: str
    text: str
    remedy: str = ""


#: What a check gives; the table adds the subject where the check names none. As nothing counts
#: False, too: ``used > most and warn(...)``.
Found = Finding | Iterable[Finding] | Literal[False] | None
#: The checks of a store by their subjects, in the order in which they are carried out.
Table = Mapping[str, Callable[[V], Found]]


def ok(text: str, subject: str = "") -> Finding:
    """It is as it should be."""
    return Finding(Level.OK, subject, text)


def warn(text: str, remedy: str = "", subject: str = "") -> Finding:
    """It is worth a look."""
    return Finding(Level.WARN, subject, text, remedy)


def fail(text: str, remedy: str = "", subject: str = "") -> Finding:
    """The store can't be used as it is."""
    return Finding(Level.FAIL, subject, text, remedy)


def run(visit: V, *stages: Table[V]) -> Iterator[Finding]:
    """Carry out checks; what comes after a stage that fails would only repeat it in other words."""
    for stage in stages:
        sound = True
        for subject, check in stage.items():
            found = check(visit)
            for one in (found,) if isinstance(found, Finding) else found or ():
                yield one._replace(subject=one.subject or subject)
                sound = sound and one.level is not Level.FAIL
        if not sound:
            return


def latency(
    now: Callable[[], float],
    ask: Callable[[], object],
    remedy: str,
    what: str = "a request takes",
    worst_s: float | None = None,
) -> Finding:
    """How long a request takes; ``worst_s`` instead of the usual `WORST_S`."""
    times = []
    for _ in range(ROUNDS):
        begun = now()
        ask()
        times.append(now() - begun)
    middle, worst = sorted(times)[ROUNDS // 2], max(times)
    text = f"{what} {middle * 1e3:.2f} ms, {worst * 1e3:.2f} ms at worst of {ROUNDS}"
    slow = middle > SLOW_S or worst > (worst_s or WORST_S)
    return warn(text, remedy) if slow else ok(text)


def clock(ahead: float, by: float = 0.0) -> Finding:
    """By how many seconds the server's clock is ahead of ours, give or take ``by``."""
    if abs(ahead) - by < APART_S:
        return ok(f"{ahead * 1000:+.0f} ms beside ours")
    way = "ahead of" if ahead > 0 else "behind"
    return warn(
        f"{abs(ahead):,.1f} s {way} ours. That alone does no harm, "
        "but when it is put right by a jump, leases end sooner or later than their holders think",
        "have both machines follow the time of the network (NTP), which moves clocks gently",
    )


def lines(wrong: int) -> Finding:
    """The finding about names whose line contradicts its claims; ``wrong``: their number."""
    if not wrong:
        return ok("each says what its claims say")
    return warn(
        f"{wrong:,} names whose line says something else than their claims: somebody has "
        "changed the tables by hand",
        "nothing: whoever next wants the name puts its line right",
    )
