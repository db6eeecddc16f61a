"""A detached hold as text: what another process needs to go on with it.

It contains the claim's secret, so it is worth as much as the hold: keep it out of logs. Adopting
exchanges the secret, so a token works once.
"""

from __future__ import annotations

from ..errors import ConfigError
from . import checks
from .model import Claim, Kind, Spec

_PREFIX = "hf1."
#: Fences are integers of 64 bits with a sign.
FENCE_MAX = (1 << 63) - 1


def write(claim: Claim, fence: int, ttl: float, weight: int) -> str:
    """The token of a hold."""
    import base64  # here and below because few programs detach, and both are slow to import
    import json

    spec = claim.spec
    body = [claim.id, fence, spec.name, spec.kind, spec.capacity, weight, ttl, spec.meta]
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    return _PREFIX + base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def read(text: object, owner: str) -> tuple[Claim, int]:
    """The claim and the fence that a token stands for; the owner is the one who adopts."""
    import base64
    import json

    try:
        if not isinstance(text, str) or not text.startswith(_PREFIX):
            raise ValueError
        raw = text[len(_PREFIX) :]
        body = json.loads(base64.urlsafe_b64decode(raw + "=" * (-len(raw) % 4)))
        cid, fence, name, kind, capacity, weight, ttl, meta = body
        checks.count("fence", fence, FENCE_MAX)
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
        return Claim(cid, spec), fence
    except (ValueError, TypeError, RecursionError):
        raise ConfigError(
            "this is not the token of a detached hold; pass on what hold.detach() returned"
        ) from None
