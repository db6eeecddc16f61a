"""Sees every hold and delivery of this process, and judges them together.

A store that answers True to a release says that the hold was there until then. So two holds that
both were given back like that, and were held at the same time, show that the store let two in, in
whatever test that was; likewise for two deliveries of one group, a job that was acked twice, and a
fence that falls. That is true at any speed, so it is a ``PromiseBroken``.

A plugin of pytest. It keeps numbers and names, never the holds themselves.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any, NamedTuple

import pytest

from holdfast.core.hold import HoldBase
from holdfast.core.queue.delivery import DeliveryBase
from holdfast.core.queue.model import Verdict
from holdfast.core.queue.settling import Settling
from holdfast.core.semaphore import SemaphoreBase
from holdfast.testing.promise import PromiseBroken

#: Where it looks on. Elsewhere tests damage what a store keeps, and so make two hold at once.
ROOMS = {"conformance", "core", "queues", "guard", "caches"}
#: Whose stores have planted faults.
FAULTY = {"test_kit.py"}
#: Names that are remembered at a time, and spans of each.
NAMES, SPANS = 2000, 64


class Span(NamedTuple):
    """What was certainly held: from the return of the acquire to the call of the release."""

    who: str
    began: float
    ended: float
    fence: int
    weight: int
    capacity: int

    def __str__(self) -> str:
        return f"{self.who} (fence {self.fence}, {self.began:.6f} to {self.ended:.6f} s)"


class Witness:
    """All that was held.

    It has no lock: an interrupt, which tests send at any moment, would leave it locked for good.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Begin again, with another test."""
        self._open: OrderedDict[object, float] = OrderedDict()
        self._ending: OrderedDict[object, float] = OrderedDict()
        self._spans: OrderedDict[object, deque[Span]] = OrderedDict()
        self._acked: OrderedDict[object, object] = OrderedDict()
        #: Semaphores whose number of permits was changed: who may be in is unclear from here.
        self.resized: set[str] = set()
        self.found: list[str] = []

    def began(self, who: object) -> None:
        """It is held."""
        self._open.setdefault(who, time.monotonic())
        _bound(self._open)

    def ends(self, who: object) -> None:
        """It is about to be given back."""
        self._ending.setdefault(who, time.monotonic())
        _bound(self._ending)

    def ended(self, what: object, who: object, fence: int, weight: int, capacity: int) -> None:
        """It was given back, and was there until then."""
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
        """This job was acked, and that counted."""
        mine = object()
        if self._acked.setdefault(job, mine) is not mine:
            self.found.append(f"{job!r} was acked twice")
        _bound(self._acked)

    def forget(self, who: object) -> None:
        """Nothing is known of it any more."""
        self._open.pop(who, None)


def _bound(known: OrderedDict[Any, Any]) -> None:
    while len(known) > NAMES:
        with contextlib.suppress(KeyError):  # another thread was sooner
            known.popitem(last=False)


def judged(one: Span, other: Span) -> str:
    """What the two show together, or nothing."""
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
    """Judge what a test has shown, besides what it is about."""
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
    """Look on from now on."""
    _wrap(HoldBase, "__init__", lambda hold, *_: WITNESS.began(hold._lease.claim.id))
    _wrap(HoldBase, "_leave_of", lambda hold, lease: WITNESS.ends(lease.claim.id))
    _wrap(HoldBase, "_gave_back", _gave_back)
    _wrap(SemaphoreBase, "_resize", lambda lock, *_: WITNESS.resized.add(lock.name))
    inner = HoldBase._leave_again

    def leave_again(hold: HoldBase, *args: Any) -> Coroutine[Any, Any, bool]:
        WITNESS.forget(hold._lease.claim.id)  # its answer is worked out, not the store's
        return inner(hold, *args)

    HoldBase._leave_again = leave_again  # type: ignore[method-assign]
    _wrap(DeliveryBase, "__init__", lambda delivery, *_: WITNESS.began(_loan(delivery)))
    _wrap(Settling, "__init__", _settling)
    _wrap(Settling, "answered", _answered)


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


def _answered(settling: Settling, answers: Sequence[bool | Exception], again: bool) -> None:
    for one, settle, answer in zip(settling._jobs, settling.settles, answers, strict=True):
        job, queue = one._lease.job, (one._ctx.store.label, one._lease.take.queue)
        if answer is not True or again:
            WITNESS.forget(_loan(one))
            continue
        # On ZooKeeper the numbers of a group begin again, and an id may come again, too.
        if settle.verdict is Verdict.ACK and not queue[0].startswith("zookeeper"):
            WITNESS.acked((*queue, job.group, job.seq, job.id))
        if job.group:
            WITNESS.ended((*queue, job.group), _loan(one), job.fence, 1, 1)


watch()
os.register_at_fork(after_in_child=WITNESS.clear)
