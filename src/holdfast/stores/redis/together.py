"""The verbs for several names together: one script for all, if one server has all names.

A grant of several names is atomic only within one script, and in a cluster a script must stay in
one bucket. So claims in several buckets of a cluster are sent one by one; releases are sent in one
write to each node.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...core.model import Claim, Held, Leave
from ...errors import HoldfastError
from . import replies
from .keys import bucket_of
from .port import Port, Reply
from .scripts import Requests

#: The answer to each leave, by its index.
Answers = dict[int, bool | Exception]


class Together:
    """The verbs for several names, over a port. See :class:`holdfast.core.ports.Store`."""

    def __init__(self, port: Port, requests: Requests) -> None:
        self._port = port
        self._requests = requests

    async def join_free(self, claims: Sequence[Claim], within: float) -> list[Held] | None:
        """Grant all claims in one step; see the contract."""
        if self._port.clustered and not _in_one_bucket(claims):
            return None
        reply = await self._port.ask(self._requests.join_free(claims), within)
        return replies.let_in(reply, claims, self._port.label)

    async def leave_all(self, leaves: Sequence[Leave], within: float) -> list[bool | Exception]:
        """Withdraw or release many claims; see the contract.

        Outside a cluster, one script does all plain releases of claims that are alone in their
        lines. For a claim with waiters behind it that script does nothing: a second write sends a
        separate release, which also grants the waiters. All other leaves are in the first write.
        """
        alone: list[int] = []
        others: list[int] = []
        for at, leave in enumerate(leaves):
            plain = not leave.suspect and leave.after <= 0
            (alone if plain and not self._port.clustered else others).append(at)
        calls = [self._requests.leave(leaves[at]) for at in others]
        if alone:
            calls.append(self._requests.leave_all([leaves[at] for at in alone]))
        said = await self._port.ask_many(calls, within)
        found = self._left(others, said[: len(others)])
        if alone:
            found.update(self._released(alone, said[-1]))
        rest = [at for at in alone if at not in found]
        if rest:
            found.update(await self._one_by_one(leaves, rest, within))
        return [found[at] for at in range(len(leaves))]

    def _released(self, places: list[int], reply: Reply | Exception) -> Answers:
        """The answers to the releases of one call, except for claims that need a separate leave."""
        try:
            answers = replies.released(replies.whole(reply), len(places), self._port.label)
        except HoldfastError as wrong:
            return dict.fromkeys(places, wrong)
        return {at: one for at, one in zip(places, answers, strict=True) if one is not None}

    def _left(self, places: list[int], said: Sequence[Reply | Exception]) -> Answers:
        found: Answers = {}
        for at, reply in zip(places, said, strict=True):
            try:
                found[at] = replies.left(replies.whole(reply), self._port.label)
            except HoldfastError as wrong:
                found[at] = wrong
        return found

    async def _one_by_one(
        self, leaves: Sequence[Leave], places: list[int], within: float
    ) -> Answers:
        """Release the claims that need a separate leave, each in its own script, in one write."""
        calls = [self._requests.leave(leaves[at]) for at in places]
        try:
            return self._left(places, await self._port.ask_many(calls, within))
        except HoldfastError as wrong:  # no exception: the other leaves have their answers
            return dict.fromkeys(places, wrong)


def _in_one_bucket(claims: Sequence[Claim]) -> bool:
    return len({bucket_of(claim.spec.name.encode()) for claim in claims}) == 1
