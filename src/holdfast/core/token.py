"""A detached hold as text: what another process needs to go on with it.

It contains the claim's secret, so it is worth as much as the hold: keep it out of logs. Adopting
exchanges the secret, so a token works once.
"""

from __future__ import annotations

from ..errors import ConfigError
from .model import Claim, Kind, Spec

_PREFIX = "hf1."


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
        if len(cid) != 32 or not isinstance(fence, int):
            raise ValueError
        spec = Spec(name, Kind(kind), int(capacity), int(weight), float(ttl), owner, str(meta))
        return Claim(str(cid), spec), fence
    except (ValueError, TypeError):
        raise ConfigError(
            "this is not the token of a detached hold; pass on what hold.detach() returned"
        ) from None
