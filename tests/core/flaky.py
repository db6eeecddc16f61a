"""A real store with planted faults: lost requests, lost replies, or errors for single claims."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from holdfast import StoreUnavailable
from holdfast.core.model import Change, Claim, Joined, Leave, Renewal, Standing


class Flaky:
    """Passes every verb to a store, except the verbs that must fail."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.calls: Counter[str] = Counter()
        #: Verbs whose requests are lost: they never arrive.
        self.down: set[str] = set()
        #: Verbs whose requests arrive, but whose replies are lost.
        self.mute: set[str] = set()
        #: Called with each batch of keeps before it is sent.
        self.before_renew: Callable[[Sequence[Renewal]], object] = lambda renewals: None
        #: Names whose claims fail in a batch, while the other claims are renewed.
        self.broken: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def cut_once(self, meanwhile: Callable[[], None]) -> None:
        """Lose the reply of the next join, and call ``meanwhile`` before the client repeats it."""

        async def join(claim: Claim, wait: bool, within: float) -> Joined:
            del self.join
            await self.store.join(claim, wait, within)
            meanwhile()
            raise StoreUnavailable("planted: the answer to join is lost")

        self.join = join

    def cut(self) -> None:
        """Lose every request."""
        self.down = {"join", "join_free", "renew", "turn", "change"}
        self.down |= {"leave", "leave_all", "break_", "inspect"}

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

    async def _ask(self, verb: str, *given: Any) -> Any:
        self._called(verb)
        answer = await getattr(self.store, verb)(*given)
        self._answered(verb)
        return answer

    async def join(self, claim: Claim, wait: bool, within: float) -> Joined:
        return await self._ask("join", claim, wait, within)

    async def join_free(self, claims: Sequence[Claim], within: float) -> Any:
        return await self._ask("join_free", claims, within)

    async def renew(self, renewals: Sequence[Renewal], within: float) -> list[Standing | Exception]:
        self.before_renew(renewals)
        answers = await self._ask("renew", renewals, within)
        return [
            OSError("planted") if one.claim.spec.name in self.broken else answer
            for one, answer in zip(renewals, answers, strict=True)
        ]

    async def turn(self, claim: Claim, ticket: int, within: float) -> Any:
        return await self._ask("turn", claim, ticket, within)

    async def change(self, change: Change, within: float) -> Any:
        return await self._ask("change", change, within)

    async def leave(self, leave: Leave, within: float) -> bool:
        return await self._ask("leave", leave, within)

    async def leave_all(self, leaves: Sequence[Leave], within: float) -> list[bool | Exception]:
        answers = await self._ask("leave_all", leaves, within)
        return [
            StoreUnavailable("planted: no answer") if leave.name in self.broken else answer
            for leave, answer in zip(leaves, answers, strict=True)
        ]

    async def break_(self, name: str, ticket: int, within: float) -> bool:
        return await self._ask("break_", name, ticket, within)

    async def inspect(self, prefix: str, within: float, exact: bool = False) -> Any:
        return await self._ask("inspect", prefix, within, exact)


def behind(client: Any, kind: type[Flaky] = Flaky, *more: Any) -> Any:
    """Put a fault of this kind between this client and its store."""
    client._ctx.store = kind(client._ctx.store, *more)
    return client._ctx.store
