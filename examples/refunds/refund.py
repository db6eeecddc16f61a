"""What a refund is."""

from __future__ import annotations

from typing import Any, NamedTuple

#: The parts of a refund, and the types that they have in JSON.
_PARTS = {"id": str, "merchant": str, "order": str, "cents": int}


class Refund(NamedTuple):
    """A wish to give the money of an order back, once. ``id`` is chosen by the customer's program,
    so that a wish that is sent twice, because no answer came, is one wish."""

    id: str
    merchant: str
    order: str
    cents: int


def parse(given: Any) -> Refund:
    """The refund that somebody sent; ``ValueError`` says what is wrong with it."""
    for part, kind in _PARTS.items():
        if not isinstance(given, dict) or type(given.get(part)) is not kind or not given[part]:
            raise ValueError(
                f"a refund has {', '.join(_PARTS)}; {part!r} must be a {kind.__name__}"
            )
    refund = Refund(*(given[part] for part in _PARTS))
    if refund.cents < 0:
        raise ValueError("a refund is of more than 0 cents")
    return refund
