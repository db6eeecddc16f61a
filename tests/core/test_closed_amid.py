"""A client that another thread closes while one of its requests is on its way.

The request is lost with the connection or arrives late. Nothing is left behind, and nothing more is
sent.
"""

from __future__ import annotations

import contextlib
import inspect
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import pytest

from holdfast import Client, Hold, HoldfastError, NotHeld, StoreUnavailable
from holdfast.core import closing

TTL = 300.0
#: Seconds for a request that needs no wait: without another holder this is enough.
NOW_S = 0.2
SOON_S = 20.0


class Way:
    """The connection between a client and its store, which holds up one request.

    This request is the first one of a verb after ``skip`` others. It is held up after it has
    ``arrived``, or before. After the close, no other request arrives.
    """

    def __init__(self, verb: str, skip: int, arrived: bool) -> None:
        self.verb = verb
        self.skip = skip
        self.arrived = arrived
        #: ``lost``: the reply is lost. ``ended``: the connection has ended.
        self.lost = self.ended = False
        self.sent = 0
        #: Called by the close just before it ends the connection.
        self.at_end: Callable[[], object] = lambda: None
        self.begun, self.go = threading.Event(), threading.Event()

    async def pass_on(self, name: str, verb: Callable[..., Any], *given: Any) -> Any:
        """Pass a request on, or hold it up."""
        if name == "close":
            self.at_end()
            self.ended = True
            return await verb()
        if self.ended:
            raise StoreUnavailable("planted: the connection has ended")
        if name != self.verb or threading.current_thread() is threading.main_thread():
            return await verb(*given)  # of this client, that thread only closes it
        self.sent += 1
        if self.sent <= self.skip or self.begun.is_set():
            return await verb(*given)
        answer = await verb(*given) if self.arrived else None
        self.begun.set()
        assert self.go.wait(SOON_S)
        answer = answer if self.arrived else await verb(*given)
        if self.ended or self.lost:
            raise StoreUnavailable("planted: the answer is lost")
        return answer


class Wire:
    """A store, or its queues or guards, behind this connection."""

    def __init__(self, part: Any, way: Way) -> None:
        self._part = part
        self._way = way

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._part, name)
        if name in ("queues", "guards"):
            return Wire(found, self._way)
        return (
            partial(self._way.pass_on, name, found) if inspect.iscoroutinefunction(found) else found
        )


def _nobody(other: Client, made: Any) -> None:
    assert other.inspect() == []


def _next_hold(other: Client, made: Any) -> None:
    """Check that the token is still valid, or that its hold has ended."""
    with contextlib.suppress(NotHeld):
        other.adopt(made).release()
    _nobody(other, made)


def _next_value(other: Client, made: Any) -> None:
    assert other.guard("g", ttl=TTL, lease=TTL, timeout=NOW_S).get(lambda: 2, key="x") == 2


def _next_job(other: Client, made: Any) -> None:
    job = other.queue("x").take(NOW_S)
    assert job is not None
    assert job.attempt == 1


class Case(NamedTuple):
    """One request that is held up.

    ``work`` sends ``verb``. ``after`` checks that another client can get the same thing, and
    ``prepare`` runs first. The first ``skip`` requests of this verb pass.
    """

    verb: str
    work: Callable[[Amid], object]
    after: Callable[[Client, Any], None] = _nobody
    prepare: Callable[[Client, Client], Any] = lambda ours, other: None
    skip: int = 0


class Amid:
    """A case that is played up to the point where its request is held up."""

    def __init__(self, case: Case, other: Client, arrived: bool = False) -> None:
        self.ours, self.case = Client(other.url), case
        self.way = Way(case.verb, case.skip, arrived)
        self.made = case.prepare(self.ours, other)
        ctx: Any = self.ours._ctx
        ctx.store = Wire(ctx.store, self.way)
        self.came: list[object] = []
        self.ready, self.go = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self._work, daemon=True)
        self.thread.start()

    def _work(self) -> None:
        try:
            self.came.append(self.case.work(self))
        except (HoldfastError, ValueError) as failure:
            self.came.append(failure)

    def pause(self) -> bool:
        """Report that the preparation is done, and wait for `begin`."""
        self.ready.set()
        return self.go.wait(SOON_S)

    def fails(self, *_: object) -> None:
        """A function that fails after a pause."""
        self.pause()
        raise ValueError("planted")

    def begin(self) -> None:
        """Start the request, and wait until it is held up."""
        assert self.ready.wait(SOON_S)
        self.go.set()
        assert self.way.begun.wait(SOON_S)

    def go_on(self) -> None:
        """Let the request and the work end."""
        self.way.go.set()
        self.thread.join(SOON_S)
        assert not self.thread.is_alive()


def after_pause(work: Callable[[Amid], object]) -> Callable[[Amid], object]:
    """Return this work, with a pause before it."""

    def run(amid: Amid) -> object:
        amid.pause()
        return work(amid)

    return run


def _acquires_without_success(amid: Amid) -> object:
    keeper: Any = amid.ours._ctx.keeper
    keeper.add = amid.fails
    return _acquires(amid.ours)


def _consumes(amid: Amid) -> object:
    for _ in amid.ours.queue("x", ttl=TTL).consume(0):
        amid.pause()
    return None


def _put(ours: Client, other: Client) -> Any:
    return other.queue("x").put(1)


def _acquires(ours: Client, other: object = None) -> Hold:
    return ours.lock("x", ttl=TTL).acquire()


def _get(compute: Callable[[Amid], Any]) -> Callable[[Amid], object]:
    return lambda amid: amid.ours.guard("g", ttl=TTL, lease=TTL).get(compute(amid), key="x")


_releases = after_pause(lambda amid: amid.made.release())
#: Cases whose request can acquire something.
GETS = {
    "lock": Case("join", after_pause(lambda amid: _acquires(amid.ours))),
    "several": Case(
        "join_free",
        after_pause(
            lambda amid: amid.ours.all(*[amid.ours.lock(name, ttl=TTL) for name in "xy"]).acquire()
        ),
    ),
    "adopt": Case(
        "change",
        after_pause(lambda amid: amid.ours.adopt(amid.made)),
        _next_hold,
        lambda ours, other: _acquires(other).detach(),
        skip=1,
    ),
    "take": Case(
        "take",
        after_pause(lambda amid: amid.ours.queue("x", ttl=TTL).take(SOON_S)),
        _next_job,
        _put,
    ),
    "guard": Case("begin", after_pause(_get(lambda amid: lambda: 1)), _next_value),
}
#: Cases whose request releases something.
GIVES = {
    "release": Case("leave", _releases, prepare=_acquires),
    "release, not renewed": Case(
        "leave",
        _releases,
        prepare=lambda ours, _: ours.lock("x", ttl=TTL, auto_renew=False).acquire(),
    ),
    "release of several": Case(
        "leave_all", _releases, prepare=lambda ours, _: ours.all("x", "y").acquire()
    ),
    "release by the renewer": Case(
        "leave", after_pause(lambda amid: amid.made._cut(1)), prepare=_acquires
    ),
    "undo": Case("leave", _acquires_without_success),
    "value": Case("finish", _get(lambda amid: amid.pause), _next_value),
    "failure": Case("abandon", _get(lambda amid: amid.fails), _next_value),
}
#: Cases whose request settles a delivery.
SETTLES = {
    "ack": Case(
        "settle",
        after_pause(lambda amid: amid.made.ack()),
        prepare=lambda ours, other: _put(ours, other) and ours.queue("x").take(0),
    ),
    "ack and take": Case("settle_and_take", _consumes, prepare=_put),
}


#: The memory store has no late requests, and its guards don't check for them.
@pytest.mark.parametrize(
    "kind, arrived",
    [(kind, how) for kind in GETS for how in (True, False) if how or kind != "guard"],
)
def test_a_grant_to_a_client_that_closes_is_released(
    kind: str, arrived: bool, other: Client
) -> None:
    amid = Amid(GETS[kind], other, arrived)
    amid.begin()
    amid.ours.close()
    if arrived:  # before the thread that has sent it can undo it
        amid.case.after(other, amid.made)
    amid.go_on()
    if not arrived:  # it has come after its undo
        amid.case.after(other, amid.made)
    assert isinstance(amid.came[0], StoreUnavailable)


@pytest.mark.parametrize("kind", GETS)
def test_a_grant_that_arrives_during_the_close_is_released(
    kind: str, other: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    amid = Amid(GETS[kind], other)
    amid.begin()
    keeper = amid.ours._ctx.keeper
    ours = keeper.give_up

    def give_up(*given: Any) -> Any:
        found = ours(*given)
        amid.go_on()
        return found

    monkeypatch.setattr(keeper, "give_up", give_up)
    amid.ours.close()
    amid.case.after(other, amid.made)


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("kind", GIVES)
def test_a_release_during_the_close_takes_effect(
    kind: str, late: bool, other: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``late``: the release begins during the close."""
    amid = Amid(GIVES[kind], other)
    keeper = amid.ours._ctx.keeper
    ours = keeper.give_up

    def give_up(*given: Any) -> Any:
        amid.go.set()
        while not amid.way.begun.wait(0.001) and amid.thread.is_alive():
            pass  # or it is refused
        return ours(*given)

    if late:
        assert amid.ready.wait(SOON_S)
        monkeypatch.setattr(keeper, "give_up", give_up)
    else:
        amid.begin()
    amid.ours.close()
    amid.case.after(other, amid.made)
    amid.go_on()


@pytest.mark.parametrize("kind", ["release", "release of several"])
def test_a_release_that_a_close_overtakes_is_no_loss(kind: str, other: Client) -> None:
    amid = Amid(GIVES[kind], other)
    amid.begin()
    amid.way.at_end = amid.go_on
    amid.ours.close()
    assert amid.came == [True]
    assert amid.made.lost is None


@pytest.mark.parametrize("kind", SETTLES)
def test_a_close_waits_for_a_settle_that_is_under_way(
    kind: str, other: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(closing, "CLOSE_S", SOON_S)
    amid = Amid(SETTLES[kind], other)
    amid.begin()
    close = threading.Thread(target=amid.ours.close, daemon=True)
    close.start()
    close.join(NOW_S)
    assert close.is_alive()
    amid.go_on()
    close.join(SOON_S)
    assert not close.is_alive()
    assert other.queue("x").jobs() == []


@pytest.mark.parametrize("kind", GETS)
def test_nothing_is_sent_for_a_client_that_closes_just_before(
    kind: str, other: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    amid = Amid(GETS[kind], other)
    runtime = amid.ours._ctx.runtime
    new_id = runtime.new_id

    def closes() -> str:
        monkeypatch.setattr(runtime, "new_id", new_id)
        amid.ours.close()
        amid.way.ended = False
        return new_id()

    assert amid.ready.wait(SOON_S)
    monkeypatch.setattr(runtime, "new_id", closes)
    amid.go.set()
    amid.go_on()
    assert isinstance(amid.came[0], StoreUnavailable)
    assert amid.way.sent == amid.case.skip


@pytest.mark.parametrize("kind", ["lock", "adopt", "take", "guard"])
def test_nothing_is_sent_again_for_a_client_that_closes_meanwhile(
    kind: str, other: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    amid = Amid(GETS[kind], other)

    async def closes(seconds: float) -> None:
        amid.ours.close()
        amid.way.ended = False

    monkeypatch.setattr(amid.ours._ctx.runtime, "sleep", closes)
    amid.way.lost = True
    amid.begin()
    amid.go_on()
    assert isinstance(amid.came[0], StoreUnavailable)
    assert amid.way.sent == amid.case.skip + 1
