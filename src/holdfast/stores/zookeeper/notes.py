"""Content of a claim's node, for human readers and for the waiters behind it.

The first line is the owner, so that other tools show it; the rest is JSON.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

_DIGEST = re.compile(r"[0-9a-f]{32}")


class Note(NamedTuple):
    """The data of a node. For a node of another library only the owner is known."""

    owner: str
    ttl: float = 0.0
    #: Current weight: after a downgrade, lower than the weight in the node's name. 0: not known.
    weight: int = 0
    meta: str = ""
    #: Digest of the claim's id, if the node's name doesn't contain the digest; else empty.
    claim: str = ""


def note(owner: str, ttl: float, weight: int, meta: str, claim: str = "") -> bytes:
    r"""Return the data of a claim's node.

    >>> note("host:1:web", 30.0, 1, "")
    b'host:1:web\n{"ttl": 30.0, "weight": 1}'
    """
    told: dict[str, object] = {"ttl": ttl, "weight": weight}
    if meta:
        told["meta"] = meta
    if claim:
        told["claim"] = claim
    return f"{owner}\n{json.dumps(told)}".encode()


def read_note(data: bytes) -> Note:
    """Parse the data of a node.

    >>> read_note(b"10.0.0.7")
    Note(owner='10.0.0.7', ttl=0.0, weight=0, meta='', claim='')
    """
    text = data.decode("utf-8", "replace")
    owner, _, told = text.partition("\n{")
    try:
        found = json.loads("{" + told) if told else {}
        ttl, weight, meta = found.get("ttl", 0.0), found.get("weight", 0), found.get("meta", "")
        return Note(owner, float(ttl), int(weight), str(meta), _mark(found.get("claim", "")))
    except (ValueError, TypeError):
        return Note(text)


def _mark(told: object) -> str:
    """Return the digest if it is valid, and can be a part of a path; else an empty text."""
    return told if isinstance(told, str) and _DIGEST.fullmatch(told) else ""
