"""The data of a refund."""

from __future__ import annotations

from typing import Any, NamedTuple

#: The parts of a refund, and the types that they have in JSON.
_PARTS = {"id": str, "merchant": str, "order": str, "cents": int}


class Refund(NamedTuple):
    """A request to pay the money of an order back, once.

    The customer's program chooses ``id``. If it sends a request again because no reply came, it
    uses the same id, so both count as one request."""

    id: str
    merchant: str
    order: str
    cents: int


def parse(given: Any) -> Refund:
    """Return the refund in a request; raise ``ValueError`` if it is invalid."""
    for part, kind in _PARTS.items():
        if not isinstance(given, dict) or type(given.get(part)) is not kind or not given[part]:
            raise ValueError(
                f"a refund has {', '.join(_PARTS)}; {part!r} must be a {kind.__name__}"
            )
    refund = Refund(*(given[part] for part in _PARTS))
    if refund.cents < 0:
        raise ValueError("a refund is of more than 0 cents")
    return refund
