"""The findings of an examination of a store (``holdfast doctor``), and the run of its checks.

A store's doctor is a table of subjects and their checks. A check reports its findings by `ok`,
`warn` or `fail`: once, several times or not at all.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal, NamedTuple, TypeVar

V = TypeVar("V")
#: The number of timed requests; the limits for the median and for the slowest request.
ROUNDS, SLOW_S, WORST_S = 20, 0.05, 0.25
#: Two clocks that follow network time differ by milliseconds. If two clocks differ by more than
#: these seconds, one of the clocks doesn't follow network time.
APART_S = 1.0
#: Above this part of its limit, the use of connections or memory is a finding.
FULL = 0.9


class Level(enum.StrEnum):
    """The level of a finding: correct, worth attention, or unusable."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class Finding(NamedTuple):
    """One result. ``remedy``: what the user can do; empty if the state is correct."""

    level: Level
    subject: str
    text: str
    remedy: str = ""


#: The result of a check; `run` adds the subject if the check names none. False means no finding,
#: for checks such as ``used > most and warn(...)``.
Found = Finding | Iterable[Finding] | Literal[False] | None
#: The checks of a store by their subjects, in the order in which they are carried out.
Table = Mapping[str, Callable[[V], Found]]


def ok(text: str, subject: str = "") -> Finding:
    """Return a finding for a correct state."""
    return Finding(Level.OK, subject, text)


def warn(text: str, remedy: str = "", subject: str = "") -> Finding:
    """Return a finding that is worth attention."""
    return Finding(Level.WARN, subject, text, remedy)


def fail(text: str, remedy: str = "", subject: str = "") -> Finding:
    """Return a finding for a store that can't be used."""
    return Finding(Level.FAIL, subject, text, remedy)


def run(visit: V, *stages: Table[V]) -> Iterator[Finding]:
    """Run the tables in order; none after a failed check, which would only fail again."""
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
    """Measure the time that a request takes; ``worst_s`` replaces the usual `WORST_S`."""
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
    """Return the finding for a server's clock that is ``ahead`` seconds, plus or minus ``by``,
    ahead of this host's."""
    if abs(ahead) - by < APART_S:
        return ok(f"{ahead * 1000:+.0f} ms from ours")
    way = "ahead of" if ahead > 0 else "behind"
    return warn(
        f"{abs(ahead):,.1f} s {way} ours. That alone does no harm, "
        "but if a jump corrects it, leases end earlier or later than their holders expect",
        "let both machines follow network time (NTP), which adjusts clocks gradually",
    )


def lines(wrong: int) -> Finding:
    """Return the finding for ``wrong`` names whose line contradicts their claims."""
    if not wrong:
        return ok("each agrees with its claims")
    return warn(
        f"{wrong:,} names whose line contradicts their claims: the tables were changed by hand",
        "nothing: the next claim on the name repairs its line",
    )
