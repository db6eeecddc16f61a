"""State of this process's own claims: their nodes, and the time when each expires.

ZooKeeper ends a node with its session, and not before. So this module ends the claims that must end
earlier: holds that are not renewed, and claims whose waiter gave up. When a claim expires it is
dead at once for every caller, and its node is deleted as soon as possible.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from ...core.model import Claim, Loss
from .requests import Made, Stat


class Mine:
    """One claim of ours."""

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
        #: Its node, once known. If the reply to the create was lost, this stays empty.
        self.path = ""
        self.node = ""
        self.stat = Stat(0, 0.0, 0.0, 0)
        #: Its create was refused or not sent, so it has no node.
        self.void = False
        self.expires = math.inf
        #: Its deadline during a renewal, in which it doesn't expire.
        self.until = math.inf
        self.dead: Loss | None = None
        #: `Own.bury` is about to end it as expired.
        self.dying = False
        #: The blocking nodes with a watch of ours; and the weights of nodes that were reduced.
        self.armed: set[str] = set()
        self.shrunk: dict[str, int] = {}
        #: The only node ahead, if there is just one; and whether a watch reported its end.
        self.alone = ""
        self.cleared = False
        #: Called when a watch fires. A single try, which doesn't wait, has none.
        self.bell: Callable[[], object] | None = None

    def entered(self, made: Made) -> None:
        """Record its node, which is there."""
        self.path, self.stat = made.path, made.stat
        self.node = made.path.rpartition("/")[2]

    def keeping(self) -> bool:
        """Begin a renewal: until `kept` it doesn't expire. False if it has expired.

        This and `Own.bury` run on different threads: each sets its own mark before it checks the
        other's, so that they never both continue.
        """
        if self.expires < math.inf:
            self.until, self.expires = self.expires, math.inf
        return not self.dying and self.dead is None

    def kept(self, until: float | None) -> None:
        """End a renewal: it lives until then. None: no answer came, so its deadline stays."""
        if until is not None:
            # Never earlier than the deadline that its holder was given before.
            self.until = max(until, self.until) if self.held and self.until < math.inf else until
        self.expires = self.until

    def heard(self, node: str, gone: bool) -> None:
        """A blocking node changed or went, or the connection with its watch is lost.

        The driver calls this on any thread: it only records the event and rings the bell."""
        self.armed.discard(node)
        if gone and node == self.alone:
            self.cleared = True
        bell = self.bell
        if bell is not None:
            bell()

    def blocked(self, alone: str) -> None:
        """It waits; only for this one node, if one is given."""
        self.alone, self.cleared = alone, False


class Own:
    """The claims of this process, by id; and the claims whose nodes must be deleted."""

    def __init__(self) -> None:
        self.claims: dict[str, Mine] = {}
        #: The claims whose nodes must be deleted, by id.
        self.doomed: dict[str, Mine] = {}

    def bury(self, now: float) -> None:
        """End the claims that have expired; their nodes must be deleted."""
        for mine in list(self.claims.values()):
            if mine.expires > now or mine.dead is not None:
                continue
            mine.dying = True
            if mine.expires <= now:
                self.doom(mine)
            mine.dying = False

    def doom(self, mine: Mine) -> None:
        """End the claim for every caller; its node must be deleted."""
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
