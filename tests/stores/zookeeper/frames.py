"""ZooKeeper's protocol, as far as a proxy must know it: each message begins with its length."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.testing.faults import Wire

CREATE, DELETE, LIST, MULTI, READ = 15, 2, 8, 14, 4


def frame(data: bytes) -> int:
    """How long the first whole message is, 0 if none is whole yet."""
    length = 4 + int.from_bytes(data[:4], "big") if len(data) >= 4 else 0
    return length if length <= len(data) else 0


def of_kind(*kinds: int, having: bytes = b"") -> Callable[[bytes], bool]:
    """Is it a request of one of these kinds, and does it contain that?"""
    return lambda message: int.from_bytes(message[8:12], "big") in kinds and having in message


ZOOKEEPER = Wire(frame, frame, pushed=lambda message: message[4:8] == b"\xff\xff\xff\xff")
