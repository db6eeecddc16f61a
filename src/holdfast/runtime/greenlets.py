"""Detection of gevent and eventlet, which replace blocking calls of threads. Threads are then
greenlets: they all run in one thread and must never wait in the kernel."""

from __future__ import annotations

import sys

from ..errors import ConfigError

#: Each module that patches other modules, with three parts: its function that reports if a module
#: is patched; its names for the modules in which a client blocks; the call that patches all these
#: modules.
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
    """True if a new thread is a greenlet here. ``ConfigError`` if only a part is patched."""
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
            "greenlet that waits would block all others, also the one that it waits for. Patch all "
            f"of them before anything else is imported ({remedy}), or none"
        )
    return len(whole) == len(names)
