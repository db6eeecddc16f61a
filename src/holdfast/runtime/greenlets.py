"""Programs in which gevent or eventlet has replaced what a thread blocks in: there threads are
greenlets, which all run in one thread and must never let the kernel wait."""

from __future__ import annotations

import sys

from ..errors import ConfigError

#: Module that patches -> what it is asked whether it did, its names of what a client blocks in,
#: and how all of that is patched.
_PATCHERS = {
    "gevent.monkey": (
        "is_module_patched",
        ("socket", "select", "threading", "queue", "time"),
        "monkey.patch_all()",
    ),
    "eventlet.patcher": (
        "is_monkey_patched",
        ("socket", "select", "thread", "time"),
        "eventlet.monkey_patch()",
    ),
}


def greenlets() -> bool:
    """Is a thread that is started here a greenlet? ``ConfigError`` if only a part is patched."""
    return any(_patched(module) for module in _PATCHERS)


def _patched(module: str) -> bool:
    patcher = sys.modules.get(module)
    if patcher is None:
        return False
    question, names, remedy = _PATCHERS[module]
    whole = [name for name in names if getattr(patcher, question)(name)]
    if 0 < len(whole) < len(names):
        missing = ", ".join(name for name in names if name not in whole)
        raise ConfigError(
            f"{module.partition('.')[0]} has patched {', '.join(whole)}, but not {missing}: a "
            "greenlet that waits would hold up all others, also the one that it waits for. Patch "
            f"all of them before anything else is imported ({remedy}), or none"
        )
    return len(whole) == len(names)
