"""The type of a case, and the list of cases."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple

from ..faces import FACES
from .arena import PRIMITIVES, Arena

#: Capabilities that are operations: a store that lacks one refuses the call. The other capabilities
#: are properties.
OPERATIONS = frozenset(
    {
        "semaphore",
        "rwlock",
        "election",
        "resize",
        "detach",
        "min_hold",
        "fences",
        "queues",
        "guards",
    }
)

Text = Callable[[Arena], Awaitable[None]]


class Case(NamedTuple):
    """A sentence that must be true (its name), and the coroutine function that checks it."""

    text: Text
    primitives: tuple[str, ...]
    faces: tuple[str, ...]
    needs: tuple[str, ...]
    #: True if the case forks, or changes state of the whole process, such as its warnings.
    alone: bool = False
    #: True if the sentence is true at any speed of the machine: a failure is a ``PromiseBroken``.
    promise: bool = False

    @property
    def name(self) -> str:
        """The sentence."""
        return self.text.__name__


#: Every case, by name.
CASES: dict[str, Case] = {}


def case(
    *primitives: str,
    needs: Iterable[str] = (),
    only: str = "",
    because: str = "",
    alone: bool = False,
    promise: bool = False,
) -> Callable[[Text], Text]:
    """Make a coroutine function a case of these primitives.

    ``needs`` names capabilities. ``only`` names a face if the case makes sense on that face alone,
    and ``because`` gives the reason. ``alone``: the case forks, or changes state of the whole
    process, such as its warnings, so no other case can run at the same time. ``promise``: the
    sentence is true on any machine, however slow; such a case waits only with the arena's bounded
    waits.
    """
    unknown = set(primitives) - PRIMITIVES.keys()
    assert primitives, "a case is about at least one primitive"
    assert not unknown, f"unknown primitives: {unknown}"
    assert bool(only) == bool(because), "a case of one face gives its reason"

    def register(text: Text) -> Text:
        name = text.__name__
        assert name not in CASES, f"two cases are named {name}"
        faces = (only,) if only else tuple(FACES)
        CASES[name] = Case(text, primitives, faces, tuple(needs), alone, promise)
        return text

    return register
