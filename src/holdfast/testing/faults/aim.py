"""A hook at every step of every verb that a client sends to its store: of locks, queues and guards.

A verb has three steps: *before* its request is sent; *sent*, when the request is on its way;
*after* the reply has arrived, before the client gets it. The hook is called at each step and may
do anything: cancel the task, raise, sleep, kill the process::

    def lose_the_reply(step):
        if step == ("leave", "after"):
            raise StoreUnavailable("the reply was lost")

    with aim(client, lose_the_reply):
        hold.release()

An exception raised *before* prevents the request. An exception raised *after* replaces the reply
to a request that was carried out. Only asyncio has the step *sent*: on the face for threads a verb
blocks until its reply arrives. :class:`.Strike` reaches the points inside a verb.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Coroutine, Generator, Sequence
from typing import Any, Generic, Literal, NamedTuple, TypeVar, get_args

from ...core.client import ClientBase
from ...core.model import (
    Change,
    Claim,
    Granted,
    Held,
    Joined,
    Leave,
    LineRecord,
    Mismatch,
    Renewal,
    Standing,
    Waiting,
)
from ...core.ports import Store

T = TypeVar("T")
#: The names of all verbs. ``wait`` can be the verb of locks, of queues or of guards.
Verb = Literal[
    "join", "join_free", "renew", "turn", "change", "leave", "leave_all", "break_", "wait",
    "inspect", "resize",
    "put", "take", "give_back", "settle", "settle_and_take", "extend", "survey", "jobs", "letters",
    "revive", "purge",
    "read", "begin", "finish", "abandon", "prolong", "invalidate", "look", "tally",
]  # fmt: skip
When = Literal["before", "sent", "after"]


class Step(NamedTuple):
    """A verb, and the step that it has reached."""

    verb: Verb
    when: When


#: Called at each step.
Hook = Callable[[Step], object]


@contextlib.contextmanager
def aim(client: ClientBase, hook: Hook) -> Generator[None]:
    """Call ``hook`` at each step of each verb of this client, its renewer included.

    On the face for threads the renewer calls the hook on its own thread. A client can have only
    one aim at a time.
    """
    context = client._ctx
    real = context.store
    context.store = _Aimed(real, hook)
    try:
        yield
    finally:
        context.store = real


class _Aimed:
    """The store with the hook around it."""

    def __init__(self, real: Store, hook: Hook) -> None:
        self._real = real
        self._hook = hook
        self.capabilities = real.capabilities
        self.patience = real.patience
        self.batch_max = real.batch_max
        self.watch_every = real.watch_every
        self.lease_max = real.lease_max
        self.changed = real.changed
        self.unlisten = real.unlisten
        self.close = real.close
        self.forked = real.forked
        self.label = real.label
        for part in ("queues", "guards"):
            if hasattr(real, part):
                setattr(self, part, _Part(getattr(real, part), self._steps))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    async def join(self, claim: Claim, wait: bool, within: float) -> Joined:
        return await self._steps("join", self._real.join(claim, wait, within))

    async def renew(self, renewals: Sequence[Renewal], within: float) -> list[Standing | Exception]:
        return await self._steps("renew", self._real.renew(renewals, within))

    async def turn(self, claim: Claim, ticket: int, within: float) -> Standing:
        return await self._steps("turn", self._real.turn(claim, ticket, within))

    async def change(self, change: Change, within: float) -> Standing:
        return await self._steps("change", self._real.change(change, within))

    async def leave(self, leave: Leave, within: float) -> bool:
        return await self._steps("leave", self._real.leave(leave, within))

    async def break_(self, name: str, ticket: int, within: float) -> bool:
        return await self._steps("break_", self._real.break_(name, ticket, within))

    async def join_free(self, claims: Sequence[Claim], within: float) -> list[Held] | None:
        return await self._steps("join_free", self._real.join_free(claims, within))

    async def leave_all(self, leaves: Sequence[Leave], within: float) -> list[bool | Exception]:
        return await self._steps("leave_all", self._real.leave_all(leaves, within))

    async def wait(self, claim: Claim, waiting: Waiting, seconds: float) -> Granted | None:
        return await self._steps("wait", self._real.wait(claim, waiting, seconds))

    async def inspect(self, prefix: str, within: float, exact: bool = False) -> list[LineRecord]:
        return await self._steps("inspect", self._real.inspect(prefix, within, exact))

    async def resize(self, name: str, capacity: int, within: float) -> int | Mismatch | None:
        return await self._steps("resize", self._real.resize(name, capacity, within))

    async def _steps(self, verb: Verb, work: Coroutine[Any, Any, T]) -> T:
        try:
            self._hook(Step(verb, "before"))
            answer = await _Watched(work, lambda: self._hook(Step(verb, "sent")))
        finally:
            work.close()
        self._hook(Step(verb, "after"))
        return answer


class _Part:
    """The verbs of queues or of guards with the hook around them."""

    def __init__(self, real: Any, steps: Callable[..., Any]) -> None:
        self._real = real
        self._steps = steps

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._real, name)
        if name not in get_args(Verb):
            return found
        return lambda *given, **more: self._steps(name, found(*given, **more))


class _Watched(Generic[T]):
    """Wraps a coroutine. Calls ``sent`` when the coroutine first suspends: its request is sent."""

    def __init__(self, work: Coroutine[Any, Any, T], sent: Callable[[], object]) -> None:
        self._work = work
        self._sent = sent

    def __await__(self) -> Generator[Any, Any, T]:
        work, sent = self._work, self._sent
        step = _send(work, None)
        first = True
        while True:
            try:
                wanted = step()
            except StopIteration as end:
                answer: T = end.value
                return answer
            if first:
                first = False
                sent()
            try:
                given = yield wanted
            except GeneratorExit:
                raise
            except BaseException as thrown:
                step = _throw(work, thrown)
            else:
                step = _send(work, given)


def _send(work: Coroutine[Any, Any, T], given: Any) -> Callable[[], Any]:
    return lambda: work.send(given)


def _throw(work: Coroutine[Any, Any, T], thrown: BaseException) -> Callable[[], Any]:
    return lambda: work.throw(thrown)
