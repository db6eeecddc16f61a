"""State of this process's own claims: their nodes, and the time when each expires.

ZooKeeper ends a node with its session, and not before. So this module ends the claims that must end
earlier: holds that are not renewed, and claims whose waiter gave up. An expired claim is dead
immediately for every caller; its node is deleted as soon as possible.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from ...core.model import Claim, Loss
from .requests import Made, Stat


class Mine:
    """The state of one claim of this process."""

    __slots__ = (
        "alone",
        "armed",
        "bell",
        "claim",
        "cleared",
        "data",
        "dead",
        "dying",
        "expires",
        "folder",
        "held",
        "node",
        "path",
        "shrunk",
        "stat",
        "ttl",
        "until",
        "void",
        "weight",
    )

    def __init__(self, claim: Claim, folder: str, ttl: float) -> None:
        self.claim = claim
        self.folder = folder
        self.ttl = ttl
        self.weight = claim.spec.weight
        self.held = False
        #: Path and name of the claim's node; empty until a reply has shown them.
        self.path = ""
        self.node = ""
        self.stat = Stat(0, 0.0, 0.0, 0)
        #: True if the create was refused or not sent, so the claim has no node.
        self.void = False
        #: When the claim expires; infinite during a renewal, when ``until`` is the deadline.
        self.expires = math.inf
        self.until = math.inf
        self.dead: Loss | None = None
        #: True while `Own.bury` ends the claim as expired.
        self.dying = False
        #: The blocking nodes that this claim watches.
        self.armed: set[str] = set()
        #: The current weights of the nodes whose weight was reduced.
        self.shrunk: dict[str, int] = {}
        #: ``alone``: the only node ahead, or empty. ``cleared``: a watch reported this node's end.
        self.alone = ""
        self.cleared = False
        #: Called when a watch fires; None if nothing waits for it.
        self.bell: Callable[[], object] | None = None

    def entered(self, made: Made) -> None:
        """Record the claim's node, which exists."""
        self.path, self.stat = made.path, made.stat
        self.node = made.path.rpartition("/")[2]

    def keeping(self) -> bool:
        """Begin a renewal: the claim can't expire before `kept`. False if it has expired already.

        `Own.bury` runs on another thread. `keeping` sets ``expires`` and then checks ``dying``;
        `Own.bury` sets ``dying`` and then checks ``expires``. So at most one of the two continues.
        """
        if self.expires < math.inf:
            self.until, self.expires = self.expires, math.inf
        return not self.dying and self.dead is None

    def kept(self, until: float | None) -> None:
        """End a renewal: the claim now expires at ``until``; None: at its old deadline."""
        if until is not None:
            # A holder relies on its old deadline, so the new deadline is never earlier.
            self.until = max(until, self.until) if self.held and self.until < math.inf else until
        self.expires = self.until

    def heard(self, node: str, gone: bool) -> None:
        """Record that a watch on a blocking node fired or was lost, and wake the waiter.

        ``gone``: the node was deleted. The driver calls this on any thread."""
        self.armed.discard(node)
        if gone and node == self.alone:
            self.cleared = True
        bell = self.bell
        if bell is not None:
            bell()

    def blocked(self, alone: str) -> None:
        """Record that the claim waits. ``alone``: the only node ahead, or empty."""
        self.alone, self.cleared = alone, False


class Own:
    """The claims of this process, by id; and the claims whose nodes must be deleted."""

    def __init__(self) -> None:
        self.claims: dict[str, Mine] = {}
        #: The claims whose nodes must be deleted, by id.
        self.doomed: dict[str, Mine] = {}

    def bury(self, now: float) -> None:
        """End the claims that have expired, and mark their nodes for deletion."""
        for mine in list(self.claims.values()):
            if mine.expires > now or mine.dead is not None:
                continue
            mine.dying = True
            if mine.expires <= now:
                self.doom(mine)
            mine.dying = False

    def doom(self, mine: Mine) -> None:
        """End the claim for every caller, and mark its node for deletion."""
        if mine.dead is None:
            mine.dead = Loss.EXPIRED
        self.doomed[mine.claim.id] = mine

    def forget(self, mine: Mine) -> None:
        """Forget a claim that has ended: its node is gone, or there never was one."""
        self.claims.pop(mine.claim.id, None)
        self.doomed.pop(mine.claim.id, None)

    def clear(self) -> None:
        """Forget all claims, without deleting their nodes."""
        self.claims = {}
        self.doomed = {}

    def next_due(self) -> float:
        """Return when the next claim expires; ``inf`` if none does."""
        return min((one.expires for one in self._alive()), default=math.inf)

    def _alive(self) -> Iterator[Mine]:
        return (one for one in list(self.claims.values()) if one.dead is None)
