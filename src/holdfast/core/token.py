"""A detached hold as text: what another process needs to go on with it.

It contains the claim's secret, so it is worth as much as the hold: keep it out of logs. Adopting
exchanges the secret, so a token works once.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from ..errors import ConfigError
from . import checks
from .model import Claim, Kind, Spec

_PREFIX = "hf1."


class Left(NamedTuple):
    """What is left of a hold's terms, in seconds from its detaching or its adoption on: clocks of
    different machines have nothing in common, so a moment would mean nothing."""

    least: float = 0.0
    longest: float = math.inf
    renews: bool = True


#: Of a hold without terms of its own.
WHOLE = Left()


def write(claim: Claim, fence: int, ttl: float, weight: int, left: Left = WHOLE) -> str:
    """The token of a hold."""
    import base64  # here and below because few programs detach, and both are slow to import
    import json

    spec = claim.spec
    body: list[object] = [claim.id, fence, spec.name, spec.kind, spec.capacity, weight, ttl]
    body.append(spec.meta)
    if left != WHOLE:
        most = None if left.longest == math.inf else left.longest
        body += [left.least, most, left.renews]
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    return _PREFIX + base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def read(text: object, owner: str) -> tuple[Claim, int, Left]:
    """The claim, the fence and the terms that a token stands for; the owner is the one who
    adopts."""
    import base64
    import json

    try:
        if not isinstance(text, str) or not text.startswith(_PREFIX):
            raise ValueError
        raw = text[len(_PREFIX) :]
        body = json.loads(base64.urlsafe_b64decode(raw + "=" * (-len(raw) % 4)))
        cid, fence, name, kind, capacity, weight, ttl, meta, *rest = body
        checks.count("fence", fence, checks.FENCE_MAX)
        if len(bytes.fromhex(cid)) != 16:
            raise ValueError
        spec = Spec(
            checks.name(name),
            Kind(kind),
            checks.count("capacity", capacity),
            checks.count("weight", weight, capacity),
            checks.ttl(ttl),
            owner,
            checks.meta(meta),
        )
        return Claim(cid, spec), fence, _left(rest)
    except (ValueError, TypeError, RecursionError):
        raise ConfigError(
            "this is not the token of a detached hold; pass on what hold.detach() returned"
        ) from None


def _left(rest: list[Any]) -> Left:
    """What a token says of the terms; one without a word of them has none to keep."""
    if not rest:
        return WHOLE
    least, longest, renews = rest
    most = math.inf if longest is None else checks.seconds("max_hold", longest, 0.0, 1e9)
    checks.seconds("min_hold", least, 0.0, 86_400.0)
    return Left(float(least), most, checks.flag("auto_renew", renews))
