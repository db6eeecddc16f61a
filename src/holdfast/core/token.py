"""The token: text with which another process continues a detached hold.

It contains the claim's secret, so the token is as valuable as the hold: keep it out of logs.
Adopting replaces the secret, so a token can be adopted only once. A checksum shows if a token was
cut or altered in transit; otherwise it would look like the token of a hold that has ended.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple
from zlib import crc32

from ..errors import ConfigError
from . import checks
from .model import Claim, Kind, Spec

_PREFIX = "hf2."
#: Bytes of the checksum, at the end.
_SUM = 4


class Left(NamedTuple):
    """The rest of a hold's terms, in seconds from its detaching or adoption. Clocks of different
    machines can differ, so points in time would have no meaning."""

    least: float = 0.0
    longest: float = math.inf
    renews: bool = True


#: The rest of the terms, for a hold without such terms.
WHOLE = Left()


class Passed(NamedTuple):
    """The content of a token: the store's label, the claim of the process that detached it, its
    fence, and the rest of its terms."""

    store: str
    claim: Claim
    fence: int
    left: Left = WHOLE


def write(passed: Passed) -> str:
    """Return the token of a hold."""
    import base64  # here and below, because few programs detach and both are slow to import
    import json

    spec, left = passed.claim.spec, passed.left
    body: list[object] = [passed.store, passed.claim.id, passed.fence, *spec]
    if left != WHOLE:
        most = None if left.longest == math.inf else left.longest
        body += [left.least, most, left.renews]
    raw = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
    return _PREFIX + base64.urlsafe_b64encode(raw + _sum(raw)).decode().rstrip("=")


def read(text: object) -> Passed:
    """Return the content of a token; ``ConfigError`` if the text isn't a token, or is damaged."""
    import json

    if not isinstance(text, str) or not text.startswith(_PREFIX):
        raise ConfigError(f"this is not the token of a detached hold; {_REMEDY}")
    try:
        return _passed(*json.loads(_whole(text)))
    except (ValueError, TypeError, RecursionError):
        raise ConfigError(f"this token was cut or altered on its way; {_REMEDY}") from None


_REMEDY = "pass on what hold.detach() returned, or `holdfast acquire` printed, unchanged"


def _sum(raw: bytes) -> bytes:
    return crc32(_PREFIX.encode() + raw).to_bytes(_SUM, "big")


def _whole(text: str) -> bytes:
    """Return the content of a token; ``ValueError`` for a wrong checksum or additional text."""
    import base64

    packed = text[len(_PREFIX) :]
    both = base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4))
    raw, found = both[:-_SUM], both[-_SUM:]
    if found != _sum(raw) or base64.urlsafe_b64encode(both).decode().rstrip("=") != packed:
        raise ValueError
    return raw


def _passed(
    store: Any,
    cid: Any,
    fence: Any,
    name: Any,
    kind: Any,
    capacity: Any,
    weight: Any,
    ttl: Any,
    owner: Any,
    meta: Any,
    *terms: Any,
) -> Passed:
    """Return the content of a token from its parts, each of which is checked."""
    checks.count("fence", fence, checks.FENCE_MAX)
    if len(bytes.fromhex(cid)) != 16:
        raise ValueError
    spec = Spec(
        checks.name(name),
        Kind(kind),
        checks.count("capacity", capacity),
        checks.count("weight", weight, capacity),
        checks.ttl(ttl),
        checks.owner(owner),
        checks.meta(meta),
    )
    store = checks.text("store", store, checks.FENCE_MAX, 1)
    return Passed(store, Claim(cid, spec), fence, _left(terms))


def _left(terms: tuple[Any, ...]) -> Left:
    """Return the rest of the terms in a token; `WHOLE` if the token has none."""
    if not terms:
        return WHOLE
    least, longest, renews = terms
    most = math.inf if longest is None else checks.seconds("max_hold", longest, 0.0, 1e9)
    checks.seconds("min_hold", least, 0.0, 86_400.0)
    return Left(float(least), most, checks.flag("auto_renew", renews))
