"""The holds of one agent, and the replies to it: short texts that a model can act on.

The lease of a hold is short, and is renewed while this process lives. So after this process is
killed, the name becomes free soon. The hold is released after the time that the agent requested.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from ...aio import AsyncClient, AsyncHold, AsyncLock, AsyncSemaphore
from ...core.model import ClaimRecord, LineRecord
from ...errors import HoldfastError
from ...runtime.blocking import boottime
from ..text import count, lapses, seconds, span, until, visible

#: The lease of a hold in seconds: for this time a name stays taken after the process is killed.
TTL_S = 20.0
#: Seconds between two messages to a waiting agent, and between two polls of a name.
TELL_S, LOOK_S = 3.0, 0.5
#: Maximum seconds for which a call can wait, because MCP clients cancel calls that take minutes.
WAIT_S_MAX = 600.0

#: Sends the MCP client a message: the seconds waited, the maximum, and a text with the position.
Progress = Callable[[float, float, str], Awaitable[None]]


class Refused(Exception):
    """The agent's request is refused; the text contains the reason and the remedy."""


class Taken:
    """One hold, and the moment at which its time expires."""

    def __init__(self, hold: AsyncHold, lasts: float, end: Callable[[], object]) -> None:
        self.hold = hold
        self._end = end
        self.last(lasts)

    def last(self, seconds: float) -> None:
        """Set the timer that ends the hold after ``seconds``."""
        self.timer = asyncio.get_running_loop().call_later(seconds, self._end)

    @property
    def left(self) -> float:
        """The seconds until the hold is ended."""
        return max(0.0, self.timer.when() - asyncio.get_running_loop().time())


class Agent:
    """One session and its holds, by name."""

    def __init__(
        self, client: AsyncClient, lasts: float, longest: float, prefixes: tuple[str, ...] = ()
    ) -> None:
        self.client = client
        self.lasts, self.longest = min(lasts, longest), longest
        self.prefixes = prefixes
        self.taken: dict[str, Taken] = {}
        #: A name -> the reason why the last hold of this name has ended.
        self.over: dict[str, str] = {}
        #: Releases that run in the background.
        self._ending: set[asyncio.Future[None]] = set()
        #: The names that calls are waiting for now.
        self.wanted: set[str] = set()

    async def look(self, prefix: str) -> str:
        """Return the holders and waiters of names, in words."""
        lines = [one for one in await self.client.inspect(prefix) if self._may(one.name)]
        if not lines:
            return f"No name is held or waited for{f' below {prefix!r}' if prefix else ''}."
        return "\n".join(map(self._line, lines))

    async def acquire(
        self, name: str, permits: int | None, lasts: str, wait: str, progress: Progress
    ) -> str:
        """Acquire a lock, or one of ``permits`` permits; return the result in words."""
        self._allow(name)
        length, longest = self._length(lasts), _seconds("wait", wait, 0.0, WAIT_S_MAX)
        if name in self.taken:
            raise Refused(f"{self._mine(name)} Call renew to keep it for longer.")
        if name in self.wanted:
            raise Refused(f"Another call of yours already waits for {name!r}.")
        client = self.client
        lock: AsyncLock | AsyncSemaphore = client.lock(name, ttl=TTL_S)
        if permits is not None:
            lock = client.semaphore(name, permits, ttl=TTL_S)
        self.wanted.add(name)
        try:
            hold = await self._waited(name, lock.acquire(timeout=longest), longest, progress)
        finally:
            self.wanted.discard(name)
        if hold is None:
            return f"{await self._busy(name)} {_no_more_in_line(longest)}"
        self.over.pop(name, None)
        self.taken[name] = Taken(hold, length, lambda: self._end(name, hold))
        hold.on_lost(lambda _, reason: self._drop(name, hold, f"it was lost: {reason}"))
        return (
            f"You hold {name!r} now, for {span(length)}, {until(length)} (fence {hold.fence}). "
            "Call release as soon as you are done; call renew before then if you need it longer."
        )

    async def renew(self, name: str, lasts: str) -> str:
        """Extend a hold; return the result in words."""
        length = self._length(lasts)
        taken = self._of(name)
        await taken.hold.extend()
        taken.timer.cancel()
        taken.last(length)
        return self._mine(name)

    async def check(self, name: str) -> str:
        """Return a text: this agent's hold on a name, or the reason of its end and the holder."""
        self._allow(name)
        taken = self.taken.get(name)
        if taken is not None:
            taken.hold.check()
            return self._mine(name)
        over = self.over.get(name)
        return f"You don't hold {name!r}{f': {over}' if over else ''}. {await self._who(name)}"

    async def release(self, name: str) -> str:
        """Release a hold; return the result in words."""
        taken = self._of(name)
        there = await taken.hold.release()
        self._drop(name, taken.hold, "you have released it")
        if there:
            return f"{name!r} is released; the next waiter gets it."
        return f"{name!r} was lost before the release: another holder can have worked since then."

    async def wait(self, name: str, wait: str, progress: Progress) -> str:
        """Wait until no client holds a name; return the result in words."""
        self._allow(name)
        longest = _seconds("wait", wait, 0.0, WAIT_S_MAX)
        if name in self.taken:
            raise Refused(f"{self._mine(name)} You would wait for yourself.")
        begun, told = boottime(), 0.0
        while (await self._holders(name))[0]:
            waited = boottime() - begun
            if waited >= longest:
                return f"{await self._who(name)} You waited {span(longest)}; continue or retry."
            if waited >= told:
                await progress(waited, longest, f"{name!r} is held")
                told = waited + TELL_S
            await asyncio.sleep(min(LOOK_S, longest - waited))
        return f"{name!r} is free now. That can change immediately: acquire it to be sure."

    async def break_(self, name: str, fence: int) -> str:
        """End the hold of another owner; return the result in words."""
        self._allow(name)
        if await self.client.break_(name, fence):
            return (
                f"The hold of {name!r} with fence {fence} is broken. Its owner notices at the next "
                "renewal, and can work until then."
            )
        return f"No claim on {name!r} has fence {fence}. {await self._who(name)}"

    async def close(self) -> None:
        """End the session: release everything."""
        for taken in self.taken.values():
            taken.timer.cancel()
        await self.client.close()

    # -- the parts ---------------------------------------------------------------------------

    async def _waited(
        self, name: str, work: Awaitable[AsyncHold | None], longest: float, progress: Progress
    ) -> AsyncHold | None:
        """Return the result of an acquire, and send the client a message every ``TELL_S``."""
        task = asyncio.ensure_future(work)
        begun = boottime()
        try:
            while not (await asyncio.wait({task}, timeout=TELL_S))[0]:
                _, before = await self._holders(name)
                words = f"{before} ahead of you for {name!r}" if before else "next in line"
                await progress(boottime() - begun, longest, words)
            return task.result()
        except BaseException:
            task.cancel()
            with contextlib.suppress(BaseException):
                hold = await task
                if hold is not None:  # it was granted just before the cancellation
                    await hold.release()
            raise

    def _end(self, name: str, hold: AsyncHold) -> None:
        """Release a hold whose time has expired."""
        self._drop(name, hold, "its time has expired")
        ending = asyncio.ensure_future(_released(hold))
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)

    def _drop(self, name: str, hold: AsyncHold, why: str) -> None:
        taken = self.taken.get(name)
        if taken is not None and taken.hold is hold:
            taken.timer.cancel()
            del self.taken[name]
            self.over[name] = why

    def _of(self, name: str) -> Taken:
        self._allow(name)
        taken = self.taken.get(name)
        if taken is None:
            over = self.over.get(name)
            raise Refused(f"You don't hold {name!r}{f': {over}' if over else ''}.")
        return taken

    def _may(self, name: str) -> bool:
        return not self.prefixes or name.startswith(self.prefixes)

    def _allow(self, name: str) -> None:
        if not self._may(name):
            allowed = " or ".join(map(repr, self.prefixes))
            raise Refused(f"Names must begin with {allowed} here; {name!r} doesn't.")

    def _length(self, lasts: str) -> float:
        return _seconds("lasts", lasts, 1.0, self.longest) if lasts else self.lasts

    def _mine(self, name: str) -> str:
        taken = self.taken[name]
        left = taken.left
        return f"You hold {name!r} for {span(left)} more, {until(left)} (fence {taken.hold.fence})."

    async def _holders(self, name: str) -> tuple[tuple[ClaimRecord, ...], int]:
        """Return the holders of a name, and the number of waiters before this agent."""
        lines = await self.client.inspect(name, exact=True)
        if not lines:
            return (), 0
        own = [c.position for c in lines[0].waiters if c.owner == self.client.owner]
        return tuple(lines[0].holders), own[0] - 1 if own else len(lines[0].waiters)

    async def _who(self, name: str) -> str:
        holders, waiting = await self._holders(name)
        if not holders:
            return f"{name!r} has no holder."
        more = f"; {count(waiting, 'other')} {'waits' if waiting == 1 else 'wait'}"
        return f"{name!r} is held by {_held(holders)}{more if waiting else ''}."

    async def _busy(self, name: str) -> str:
        told = await self._who(name)
        return told if "is held by" in told else f"{name!r} is busy."

    def _line(self, line: LineRecord) -> str:
        what = line.kind
        if what == "semaphore":
            what += f", {sum(c.weight for c in line.holders)} of {line.capacity} permits taken"
        you = " (you)" if line.name in self.taken else ""
        holders = _held(line.holders) if line.holders else "no holder yet"
        return f"{line.name} ({what}): {holders}{you}; {count(len(line.waiters), 'waiter')}"


async def _released(hold: AsyncHold) -> None:
    with contextlib.suppress(HoldfastError):  # after an error, the hold ends with its lease
        await hold.release()


def _held(holders: tuple[ClaimRecord, ...]) -> str:
    """Return a text: the first holder, its time, fence and end, and the number of other holders."""
    first = holders[0]
    text = f"{visible(first.owner)} for {span(max(0.0, first.age))} (fence {first.fence}; ends "
    text += f"{lapses(first.expires_in)})"
    return text + (f" and {count(len(holders) - 1, 'other')}" if len(holders) > 1 else "")


def _no_more_in_line(longest: float) -> str:
    words = f"You waited {span(longest)} and are no longer in line. " if longest else ""
    return (
        f"{words}Do something that doesn't need it, or acquire it again with a longer wait: "
        "waiters get it in order of arrival."
    )


def _seconds(what: str, text: str, least: float, most: float) -> float:
    """Return the seconds of a duration that a model has written; refuse other texts and values."""
    try:
        found = seconds(text)
    except ValueError as wrong:
        raise Refused(f"{what}: {wrong}") from None
    if not least <= found <= most:
        raise Refused(f"{what}: {text} is not between {span(least)} and {span(most)}.")
    return found
