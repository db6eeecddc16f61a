"""Creates the node of a claim, and looks for the node if the reply to the create was lost."""

from __future__ import annotations

from .mine import Mine
from .names import beginning, digest, encoded, simple_in_use
from .notes import note
from .port import Port, refused
from .requests import Children, Create, Folder, Look, Made, No, Request, Stat, Sync
from .standing import Standing

#: Maximum attempts to make a folder: the server may remove an empty folder immediately.
_FOLDER_TRIES = 4


class Entering:
    """Creates and finds nodes below one root."""

    def __init__(self, port: Port, standing: Standing, root: str, recipe: str) -> None:
        self._port = port
        self._standing = standing
        self._recipe = recipe
        self.root = root

    def folder(self, name: str) -> str:
        """Return the path of the folder with the claims on this name."""
        return f"{self.root}/{encoded(name)}"

    async def create(self, mine: Mine, trying: bool, until: float) -> list[str]:
        """Create the claim's node and list its folder: one round trip if the folder exists."""
        spec = mine.claim.spec
        mine.void = False
        start = beginning(mine.claim, trying, self._recipe)
        data = note(spec.owner, mine.ttl, mine.weight, spec.meta)
        both = (
            Create(f"{mine.folder}/{start}", data, ephemeral=True, numbered=True),
            Children(mine.folder),
        )
        made, nodes = await self._port.ask(both, until)
        for _ in range(_FOLDER_TRIES):
            if made is not No.NODE:
                break
            mine.void = True  # if `make` fails, no node was created
            await self.make(Folder(mine.folder), until)
            mine.void = False
            made, nodes = await self._port.ask(both, until)
        if made is No.LEAF:
            mine.void = True
            raise simple_in_use(spec.name)
        if not isinstance(made, Made):
            mine.void = True
            raise refused(made, f"create a node in {mine.folder}", self._port.label)
        mine.entered(made)
        return self._standing.listed(nodes, mine.folder)

    async def make(self, last: Folder | Create, until: float) -> None:
        """Make a node, and all folders above it."""
        parts = last.path.strip("/").split("/")[:-1]
        above = ["/" + "/".join(parts[: count + 1]) for count in range(len(parts))]
        requests: list[Request] = [Create(path) for path in above]
        *before, answer = await self._port.ask([*requests, last], until)
        if not isinstance(answer, Made) and answer is not No.ROOM:
            why = No.RIGHT if No.RIGHT in before else answer
            raise refused(why, f"create {last.path}", self._port.label)

    async def find(self, mine: Mine, until: float) -> bool:
        """Find the node of a claim whose create was not answered; False if there is none.

        Requests are carried out in order, so a create that was not carried out before the `Sync`
        never will be.
        """
        _, nodes = await self._port.ask([Sync(self.root), Children(mine.folder)], until)
        node = self.own_node(mine, self._standing.listed(nodes, mine.folder))
        if node:
            path = f"{mine.folder}/{node}"
            (stat,) = await self._port.ask([Look(path)], until)
            if isinstance(stat, Stat):
                mine.entered(Made(path, stat))
                return True
        return False

    def own_node(self, mine: Mine, nodes: list[str]) -> str:
        """Return the name of this claim's node among these; empty if it isn't there."""
        wanted = digest(mine.claim.id)
        for entry in self._standing.entries(nodes, mine.claim.spec.name):
            if entry.digest == wanted:
                return entry.node
        return ""
