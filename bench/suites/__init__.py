"""The suites, one file each. A suite makes the panels of an arena that answer its question."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ..contenders import Arena
from ..model import Panel
from ..scale import Scale
from . import (
    commands,
    contention,
    crowd,
    guards,
    handoff,
    loop,
    one_name,
    queue_depth,
    queue_fairness,
    queues,
    renewal,
    server,
    several,
    startup,
    timeouts,
    uncontended,
)


@dataclass(frozen=True)
class Suite:
    """A question, and the function that makes its panels."""

    asks: str
    panels: Callable[[Arena, Scale], Sequence[Panel]]
    #: True if it takes long: a run measures it only if it is named, or if the run is quick.
    long: bool = False


SUITES: Mapping[str, Suite] = {
    "uncontended": Suite("what does it cost without contention?", uncontended.panels),
    "commands": Suite("how many commands does a server get?", commands.panels),
    "server": Suite("how long does a server work on a verb?", server.panels),
    "handoff": Suite("how soon does a waiting process hold?", handoff.panels),
    "contention": Suite("many processes want one name: who gets it?", contention.panels),
    "crowd": Suite(
        "many threads or tasks, a name for each: how many locks a second?", crowd.panels
    ),
    "one-name": Suite("a thousand tasks want one name: who gets it?", one_name.panels),
    "several": Suite("what do ten names at once cost?", several.panels),
    "queue": Suite("what does a job cost, and how soon is it begun?", queues.panels),
    "queue-fairness": Suite("does a hot group keep quiet ones waiting?", queue_fairness.panels),
    "queue-depth": Suite("does a job cost more in a deep queue?", queue_depth.panels, long=True),
    "guard": Suite("what does a guarded value cost, and how often is it computed?", guards.panels),
    "renewal": Suite("what do ten thousand renewed holds cost?", renewal.panels),
    "loop": Suite("is the event loop held up?", loop.panels),
    "startup": Suite("what does the import cost, and the command?", startup.panels),
    "timeouts": Suite("does acquire return when its time-out expires?", timeouts.panels),
}
