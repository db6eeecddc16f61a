"""``holdfast doctor``: check a store, and print its faults with their remedies."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import threading
import time
from collections.abc import Callable, Iterator

from .. import __version__, errors
from ..core.drivers import needed
from ..core.finding import Finding, Found, Level, Table, fail, latency, ok, run, warn
from ..core.model import Capabilities
from ..runtime.blocking import boottime
from ..sync import Client, Hold
from ..url import ENV, StoreURL, default_url, find
from .text import Paint, count, visible

#: A field of `Capabilities` -> the ability that a store without it lacks, in words.
LACKING = {
    "fair": "grant in the order of arrival",
    "semaphore": "keep semaphores",
    "rwlock": "keep read-write locks",
    "election": "hold elections",
    "resize": "change the permits of a semaphore in use",
    "detach": "hand a hold to another process",
    "min_hold": "keep a name taken after its release",
    "fences": "give fences, so no resource can refuse the late write of a former holder",
    "visible_line": "show the waiters",
    "owners": "show the owner of a hold",
    "kinds": "detect that a name is used as another kind of lock",
    "permits_reset_when_idle": "forget the permits of an unused semaphore",
    "wakes_waiters": "wake waiters (they poll)",
    "across_processes": "lock between processes: it is for tests",
    "durable_fences": "keep fences rising after a crash of the machine",
    "own_expiry": "end the claim of a dead process with its ttl (it ends with the session)",
}
#: If a store lacks more abilities than this, they are combined in one warning.
MANY = 4
COLOURS = {Level.OK: "green", Level.WARN: "yellow", Level.FAIL: "red"}
#: Maximum seconds of a hand-off to the next waiter; a longer one is a warning.
SLOW_S = 0.25
#: The remedy for a server that gives no answer.
AWAY = f"is it running? Start it, or correct the host and the port in --url or ${ENV}"


def doctor(options: argparse.Namespace) -> int:
    """Examine the store and print the findings; return 0 if it can be used, else 1."""
    findings: list[Finding] = []
    paint = Paint(sys.stdout)
    for finding in _examine(options.url, options.mend):
        findings.append(finding)
        if not options.json:
            print(*_words(finding, paint), sep="\n", flush=True)
    worst = [level for level in Level if any(f.level is level for f in findings)][-1]
    if options.json:
        print(json.dumps([finding._asdict() for finding in findings], indent=2))
    else:
        print(f"\n{_verdict(findings)}")
    return 1 if worst is Level.FAIL else 0


def _words(finding: Finding, paint: Paint) -> Iterator[str]:
    level = paint(f"{finding.level:4}", COLOURS[finding.level])
    yield f"{level}  {finding.subject:12} {visible(finding.text)}"
    if finding.remedy:
        yield f"{'':18} -> {visible(finding.remedy)}"


def _verdict(findings: list[Finding]) -> str:
    number = {level: sum(f.level is level for f in findings) for level in Level}
    if number[Level.FAIL]:
        return f"{count(number[Level.FAIL], 'check')} failed: the store can't be used"
    if number[Level.WARN]:
        return f"the store works; {count(number[Level.WARN], 'thing')} to check"
    return "all is well"


def _examine(given: str | None, mending: bool) -> Iterator[Finding]:
    """Yield the findings of all checks; repair the store first if ``mending``.

    If a check raises an error, the error is the last finding.
    """
    subject, url = "store", None
    try:
        yield _versions()
        subject = "url"
        source = given or default_url()
        module, url = find(source)
        yield ok(f"{url}, {_origin(given)}", subject)
        if mending:
            subject = "mend"
            with needed():
                yield from _mended(module, url)
        subject = "store"
        look: Callable[[StoreURL], Found] = getattr(module, "examine", lambda _: None)
        # `run` skips these checks if the examination fails: they would fail for the same reason.
        tried: Table[StoreURL] = {
            "test lock": lambda _: _trial(source),
            "in use": lambda _: _use(source),
            "abilities": lambda _: _abilities(module.CAPABILITIES),
        }
        with needed():
            yield from run(url, {"store": look}, tried)
    except (errors.HoldfastError, OSError) as wrong:
        away = isinstance(wrong, errors.StoreUnavailable) and url is not None and url.host
        yield Finding(Level.FAIL, subject, str(wrong), AWAY if away else "")


def _mended(module: object, url: StoreURL) -> Iterator[Finding]:
    mend: Callable[[StoreURL], Iterator[Finding]] | None = getattr(module, "mend", None)
    if mend is None:
        raise errors.ConfigError(
            f"{url} has nothing to repair: `--mend` is for the serial queues of sqlite://"
        )
    return mend(url)


def _versions() -> Finding:
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return ok(f"holdfast {__version__}, {python}, {platform.platform()}", "versions")


def _origin(given: str | None) -> str:
    if given:
        return "from --url"
    return f"from ${ENV}" if os.environ.get(ENV) else f"the default, because ${ENV} is not set"


def _trial(source: str) -> Iterator[Finding]:
    """Lock a name that no other client uses, and measure an acquire and a hand-off."""
    name = f"holdfast-doctor-{os.getpid()}-{os.urandom(4).hex()}"
    with (
        Client(source, ttl=10, label="doctor") as one,
        Client(source, ttl=10, label="doctor") as two,
    ):

        def take() -> None:
            one.lock(name, timeout=5).acquire().release()

        take()  # not measured, because it opens the store
        yield ok(latency(boottime, take, "", "acquire and release take").text)
        with one.lock(name, timeout=5) as hold:
            if two.lock(name).acquire(blocking=False) is not None:
                yield fail("two clients held one name", "don't use this store")
                return
        later = two.lock(name, timeout=5)
        hold = one.lock(name, timeout=5).acquire()
        seconds, heir = _hand_over(hold.release, later.acquire)
        if one.supports("fences") and not heir.fence > hold.fence:
            text = f"fence {heir.fence} came after {hold.fence}"
            yield fail(text, "don't use this store", "fences")
        text = f"the next waiter gets the lock after {seconds * 1000:.2f} ms"
        if seconds > SLOW_S:
            yield warn(text, "is the machine or the network very busy?", "hand-off")
        else:
            yield ok(text, "hand-off")


def _hand_over(release: Callable[[], object], acquire: Callable[[], Hold]) -> tuple[float, Hold]:
    """Release while another client waits; return its delay in seconds, and its hold."""
    got: list[tuple[float, Hold]] = []

    def wait() -> None:
        hold = acquire()
        got.append((boottime(), hold))
        hold.release()

    waiter = threading.Thread(target=wait, daemon=True)
    waiter.start()
    time.sleep(0.1)  # so that it waits already; if it starts later, the measured time is longer
    begun = boottime()
    release()
    waiter.join(5.0)
    if not got:
        raise errors.StoreUnavailable("a lock was released, but its waiter did not get it in 5 s")
    return got[0][0] - begun, got[0][1]


def _use(source: str) -> Finding:
    with Client(source) as client:
        lines = client.inspect()
    holders = sum(len(line.holders) for line in lines)
    waiters = sum(len(line.waiters) for line in lines)
    alone = sum(claim.detached for line in lines for claim in line.holders)
    text = f"{count(len(lines), 'name')}, {count(holders, 'holder')}, {count(waiters, 'waiter')}"
    text += (
        f"; {alone} detached: no process renews {'it' if alone == 1 else 'them'}" if alone else ""
    )
    return ok(text)


def _abilities(can: Capabilities) -> Iterator[Finding]:
    """Yield how the store notices a crash, and a warning for each missing ability."""
    yield ok(f"the end of a holder is noticed: {can.crash_noticed}", "crashes")
    implied = set() if can.fences else {"durable_fences"}
    lacking = [LACKING[one] for one in LACKING if not getattr(can, one) and one not in implied]
    if len(lacking) > MANY:
        lacking = ["; ".join(lacking)]
    for words in lacking:
        yield warn(f"this store can't {words}")
