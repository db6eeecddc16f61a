"""Redis under asyncio: one connection for all tasks of a loop."""

from __future__ import annotations

from .port import LoopPort

__all__ = ["LoopPort"]
