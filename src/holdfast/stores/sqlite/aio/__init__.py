"""The engines under asyncio."""

from .port import LoopPort

__all__ = ["LoopPort"]
