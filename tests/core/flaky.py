"""A real store with planted faults: lost requests, lost replies, or errors for single claims."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from holdfast import StoreUnavailable
from holdfast.core.model import Claim, Held, Joined, Keep, Leave, LineRecord, Standing
from holdfast.core.ports import Store


class Flaky:
    """Passes every verb to a store, except the verbs that must fail."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.calls: Counter[str] = Counter()
        #: Verbs whose requests are lost: they never arrive.
        self.down: set[str] = set()
        #: Verbs whose requests arrive, but whose replies are lost.
        self.mute: set[str] = set()
        #: Called with each batch of keeps before it is sent.
        self.before_keep: Callable[[Sequence[Keep]], None] = lambda keeps: None
        #: Names whose claims fail in a batch, while the other claims are renewed.
        self.broken: set[str] = set()
        self.sizes: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def cut_once(self, meanwhile: Callable[[], None]) -> None:
        """Lose the reply of the next join, and call ``meanwhile`` before the client repeats it."""

        async def join(claim: Claim, wait: bool, within: float) -> Joined:
            del self.join  # type: ignore[method-assign]
            await self.store.join(claim, wait, within)
            meanwhile()
            raise StoreUnavailable("planted: the answer to join is lost")

        self.join = join  # type: ignore[method-assign]

    def cut(self) -> None:
        """Lose every request."""
        self.down = {"join", "join_free", "keep", "leave", "leave_all", "break_"}
        self.down |= {"inspect", "resize"}

    def mend(self) -> None:
        """Remove all faults except the names in ``broken``."""
        self.down, self.mute = set(), set()

    def _called(self, verb: str) -> None:
        self.calls[verb] += 1
        if verb in self.down:
            raise StoreUnavailable(f"planted: no answer to {verb}")

    def _answered(self, verb: str) -> None:
        if verb in self.mute:
            raise StoreUnavailable(f"planted: the answer to {verb} is lost")

    async def join(self, claim: Claim, wait: bool, within: float) -> Joined:
        self._called("join")
        answer = await self.store.join(claim, wait, within)
        self._answered("join")
        return answer

    async def keep(self, keeps: Sequence[Keep], within: float) -> list[Standing | Exception]:
        self.before_keep(keeps)
        self._called("keep")
        self.sizes.append(len(keeps))
        answers = await self.store.keep(keeps, within)
        self._answered("keep")
        return [
            OSError("planted") if keep.claim.spec.name in self.broken else answer
            for keep, answer in zip(keeps, answers, strict=True)
        ]

    async def leave(self, leave: Leave, within: float) -> bool:
        self._called("leave")
        there = await self.store.leave(leave, within)
        self._answered("leave")
        return there

    async def break_(self, name: str, ticket: int, within: float) -> bool:
        self._called("break_")
        there = await self.store.break_(name, ticket, within)
        self._answered("break_")
        return there

    async def join_free(self, claims: Sequence[Claim], within: float) -> list[Held] | None:
        self._called("join_free")
        held = await self.store.join_free(claims, within)
        self._answered("join_free")
        return held

    async def leave_all(self, leaves: Sequence[Leave], within: float) -> list[bool | Exception]:
        self._called("leave_all")
        answers = await self.store.leave_all(leaves, within)
        self._answered("leave_all")
        return [
            StoreUnavailable("planted: no answer") if leave.name in self.broken else answer
            for leave, answer in zip(leaves, answers, strict=True)
        ]

    async def inspect(self, prefix: str, within: float, exact: bool = False) -> list[LineRecord]:
        self._called("inspect")
        return await self.store.inspect(prefix, within, exact)


def behind(client: Any) -> Flaky:
    """Put a fault between this client and its store."""
    flaky = Flaky(client._ctx.store)
    client._ctx.store = flaky
    return flaky


def mend_after(store: Flaky, verb: str, times: int) -> threading.Thread:
    """Remove the faults as soon as the verb was requested this many times."""

    def mend() -> None:
        while store.calls[verb] < times:
            time.sleep(0.002)
        store.mend()

    mending = threading.Thread(target=mend, daemon=True)
    mending.start()
    return mending
