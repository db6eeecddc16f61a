"""A claim that was sent to a store and its model, and the difference between their answers."""

from __future__ import annotations

from dataclasses import dataclass

from ...core.model import Claim, Waiting
from ..promise import PromiseBroken


class Difference(PromiseBroken):
    """The store's answer differs from the model's; the message shows how to repeat it."""


@dataclass(eq=False)
class Known:
    """A claim that was sent, and its tickets: ``theirs`` of the store, ``ours`` of the model."""

    claim: Claim
    theirs: int = 0
    ours: int = 0
    waiting: Waiting | None = None
