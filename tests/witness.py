"""Record every hold and delivery of this process, and check them against each other.

A store that returns True for a release reports that the hold existed until then. If two such holds
overlap in time, and together exceed the permits, the store granted too much, whatever the test is
about. The same check finds simultaneous deliveries of one group, a job that is acked twice, and a
fence that does not rise. None of this depends on speed, so it raises ``PromiseBroken``.

This is a pytest plugin. It keeps numbers and names, never the holds themselves.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any, NamedTuple

import pytest

from holdfast.core import leaving
from holdfast.core.context import Context
from holdfast.core.hold import HoldBase
from holdfast.core.lease import Lease
from holdfast.core.queue.delivery import DeliveryBase
from holdfast.core.queue.model import Verdict
from holdfast.core.queue.settling import Settling
from holdfast.core.semaphore import SemaphoreBase
from holdfast.testing.promise import PromiseBroken

#: Folders whose tests are checked. Other tests damage the data of a store, which causes two holders
#: at the same time.
ROOMS = {"conformance", "core", "queues", "guard", "caches"}
#: Test files whose stores have planted faults.
FAULTY = {"test_kit.py"}
#: Maximum recorded names, and maximum spans of each.
NAMES, SPANS = 2000, 64


class Span(NamedTuple):
    """The time of a certain hold: from the return of the acquire to the call of the release."""

    who: str
    began: float
    ended: float
    fence: int
    weight: int
    capacity: int

    def __str__(self) -> str:
        return f"{self.who} (fence {self.fence}, {self.began:.6f} to {self.ended:.6f} s)"


class Witness:
    """All recorded holds and deliveries.

    It uses no lock: tests send interrupts at any moment, and an interrupt could leave it locked.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget everything, at the start of another test."""
        self._open: OrderedDict[object, float] = OrderedDict()
        self._ending: OrderedDict[object, float] = OrderedDict()
        self._spans: OrderedDict[object, deque[Span]] = OrderedDict()
        self._acked: OrderedDict[object, object] = OrderedDict()
        #: Semaphores whose number of permits changed: after this, the allowed holders are unknown.
        self.resized: set[str] = set()
        self.found: list[str] = []

    def began(self, who: object) -> None:
        """Record that this claim is held."""
        self._open.setdefault(who, time.monotonic())
        _bound(self._open)

    def ends(self, who: object) -> None:
        """Record that this claim is about to be released."""
        self._ending.setdefault(who, time.monotonic())
        _bound(self._ending)

    def ended(self, what: object, who: object, fence: int, weight: int, capacity: int) -> None:
        """Record that this claim was released and was held until then."""
        began, ended = self._open.pop(who, None), self._ending.pop(who, None)
        if began is None or ended is None:
            return
        span = Span(str(who), began, ended, fence, weight, capacity)
        spans = self._spans.setdefault(what, deque(maxlen=SPANS))
        spans.append(span)  # before it looks: of two threads one sees what the other has added
        others = [one for one in list(spans) if one is not span]
        self.found += [f"{what!r}: {wrong}" for one in others if (wrong := judged(one, span))]
        _bound(self._spans)

    def acked(self, job: object) -> None:
        """Record that this job was acked and that the ack counted."""
        mine = object()
        if self._acked.setdefault(job, mine) is not mine:
            self.found.append(f"{job!r} was acked twice")
        _bound(self._acked)

    def forget(self, who: object) -> None:
        """Forget this claim."""
        self._open.pop(who, None)


def _bound(known: OrderedDict[Any, Any]) -> None:
    while len(known) > NAMES:
        with contextlib.suppress(KeyError):  # another thread was faster
            known.popitem(last=False)


def judged(one: Span, other: Span) -> str:
    """Return the error that the two spans show together, or an empty text."""
    if one.who == other.who or one.weight + other.weight <= max(one.capacity, other.capacity):
        return ""
    first, second = sorted((one, other), key=lambda span: span.began)
    if second.began < first.ended:
        return f"two at once: {first} and {second}"
    if 0 < second.fence <= first.fence:
        return f"the fence does not rise: {first}, then {second}"
    return ""


WITNESS = Witness()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Check the holds that a test recorded, in addition to its own assertions."""
    if "ahead" not in getattr(item, "fixturenames", ()):  # or others run at the same time
        WITNESS.clear()
    result = yield
    found, WITNESS.found = WITNESS.found, []
    if found and ROOMS & {*item.path.parts} and item.path.name not in FAULTY:
        raise PromiseBroken("\n".join(found[:5]))
    return result


def _wrap(owner: type, name: str, after: Callable[..., None]) -> None:
    inner = getattr(owner, name)

    def outer(self: Any, *args: Any, **named: Any) -> Any:
        result = inner(self, *args, **named)
        after(self, *args)
        return result

    setattr(owner, name, outer)


def watch() -> None:
    """Start recording."""
    _wrap(HoldBase, "__init__", lambda hold, *_: WITNESS.began(hold._lease.claim.id))
    _wrap(HoldBase, "_leave_of", lambda hold, lease: WITNESS.ends(lease.claim.id))
    _wrap(HoldBase, "_gave_back", _gave_back)
    _wrap(SemaphoreBase, "_resize", lambda lock, *_: WITNESS.resized.add(lock.name))
    inner = leaving.again

    def again(ctx: Context, lease: Lease, *args: Any) -> Coroutine[Any, Any, bool]:
        WITNESS.forget(lease.claim.id)  # its answer is worked out, not the store's
        return inner(ctx, lease, *args)

    leaving.again = again
    _wrap(DeliveryBase, "__init__", lambda delivery, *_: WITNESS.began(_loan(delivery)))
    _wrap(Settling, "__init__", _settling)
    _wrap(Settling, "learn", _answered)


def _gave_back(hold: HoldBase, lease: Any, there: bool) -> None:
    spec, caps = lease.claim.spec, hold._ctx.store.capabilities
    if there and lease.reason is None and spec.name not in WITNESS.resized:
        what = (hold._ctx.store.label, spec.kind, spec.name)
        fence = lease.fence if caps.fences else 0
        WITNESS.ended(what, lease.claim.id, fence, lease.weight, spec.capacity)


def _loan(delivery: DeliveryBase) -> object:
    lease = delivery._lease
    return lease.take.queue, lease.job.group, lease.job.seq, lease.take.id, lease.job.fence


def _settling(settling: Settling, *_: object) -> None:
    for one in settling._jobs:
        WITNESS.ends(_loan(one))


def _answered(settling: Settling, answers: Sequence[bool | Exception]) -> None:
    for one, settle, answer in zip(settling._jobs, settling.settles, answers, strict=True):
        job, queue = one._lease.job, (one._ctx.store.label, one._lease.take.queue)
        if answer is not True or settling.suspect:
            WITNESS.forget(_loan(one))
            continue
        # On ZooKeeper the numbers of a group can begin again, and an id can be used again, too.
        if settle.verdict is Verdict.ACK and not queue[0].startswith("zookeeper"):
            WITNESS.acked((*queue, job.group, job.seq, job.id))
        if job.group:
            WITNESS.ended((*queue, job.group), _loan(one), job.fence, 1, 1)


watch()
os.register_at_fork(after_in_child=WITNESS.clear)
