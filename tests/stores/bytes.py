"""Ways to damage bytes."""

from __future__ import annotations

import random


def changed(before: bytes, kind: str, chance: random.Random) -> bytes:
    """Return these bytes with one kind of damage."""
    match kind:
        case "emptied":
            return b""
        case "truncated":
            return before[: chance.randrange(max(1, len(before)))]
        case "flipped":
            at = chance.randrange(max(1, 8 * len(before)))
            return bytes(
                byte ^ (1 << at % 8 if place == at // 8 else 0) for place, byte in enumerate(before)
            )
        case "zeroes":
            return bytes(len(before))
        case _:
            return b"\xff" * max(8, len(before))
