"""State of this process's own claims: their nodes, and until when each may stay.

ZooKeeper ends a node with its session, and not before. So what is to end earlier, a hold that
nobody renews or a claim whose waiting was given up, is ended from here: when it
expires it is dead at once for every caller, and its node is deleted as soon as that can be done.
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
        #: Its node, once that is known. A create whose reply was lost leaves it empty.
        self.path = ""
        self.node = ""
        self.stat = Stat(0, 0.0, 0.0, 0)
        #: It was refused, so it never had a node.
        self.void = False
        self.expires = math.inf
        #: While it is being kept it doesn't expire: until when it would have.
        self.until = math.inf
        self.dead: Loss | None = None
        #: Somebody is about to find it expired.
        self.dying = False
        #: Nodes in its way that we shall hear of, and what they weigh where that has changed.
        self.armed: set[str] = set()
        self.shrunk: dict[str, int] = {}
        #: The only node ahead, if there is just one; and whether we have heard of its end.
        self.alone = ""
        self.cleared = False
        #: Rings when something was heard. One try, which doesn't stay if it must wait, has none.
        self.bell: Callable[[], object] | None = None

    def entered(self, made: Made) -> None:
        """Its node is there."""
        self.path, self.stat = made.path, made.stat
        self.node = made.path.rpartition("/")[2]

    def keeping(self) -> bool:
        """It is about to be kept: until `kept` it doesn't expire. False if it has.

        This and `Own.bury` run on different threads: each says what it is about to do before it
        looks whether the other has, so that never both continue.
        """
        if self.expires < math.inf:
            self.until, self.expires = self.expires, math.inf
        return not self.dying and self.dead is None

    def kept(self, until: float | None) -> None:
        """It lives until then; None: as long as it would have, as nobody has answered."""
        if until is not None:
            # Never shorter than what was said before: its holder counts on that.
            self.until = max(until, self.until) if self.held and self.until < math.inf else until
        self.expires = self.until

    def heard(self, node: str, gone: bool) -> None:
        """Something has become of a node in its way, or the connection that watched it is lost.

        Called by the driver, on whatever thread: it only takes notes and rings."""
        self.armed.discard(node)
        if gone and node == self.alone:
            self.cleared = True
        bell = self.bell
        if bell is not None:
            bell()

    def blocked(self, alone: str) -> None:
        """It waits; for nothing but this one node, if that is given."""
        self.alone, self.cleared = alone, False


class Own:
    """The claims of this process, by id; and the nodes that are to be deleted when possible."""

    def __init__(self) -> None:
        self.claims: dict[str, Mine] = {}
        #: Those whose nodes are to be deleted, by id.
        self.doomed: dict[str, Mine] = {}

    def bury(self, now: float) -> None:
        """The claims that have expired are dead, and their nodes are doomed."""
        for mine in list(self.claims.values()):
            if mine.expires > now or mine.dead is not None:
                continue
            mine.dying = True
            if mine.expires <= now:
                self.doom(mine)
            mine.dying = False

    def doom(self, mine: Mine) -> None:
        """It is dead for every caller, and its node is to be deleted."""
        if mine.dead is None:
            mine.dead = Loss.EXPIRED
        self.doomed[mine.claim.id] = mine

    def forget(self, mine: Mine) -> None:
        """It has ended: its node is gone, or there never was one."""
        self.claims.pop(mine.claim.id, None)
        self.doomed.pop(mine.claim.id, None)

    def clear(self) -> None:
        """Forget all: nothing of it is ours."""
        self.claims = {}
        self.doomed = {}

    def next_due(self) -> float:
        """When the next of them expires; ``inf`` if none does."""
        return min((one.expires for one in self._alive()), default=math.inf)

    def _alive(self) -> Iterator[Mine]:
        return (one for one in list(self.claims.values()) if one.dead is None)
