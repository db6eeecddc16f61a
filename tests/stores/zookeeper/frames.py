"""The part of ZooKeeper's protocol that a proxy needs: each message begins with its length."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.testing.faults import Wire

CREATE, DELETE, LIST, MULTI, READ = 15, 2, 8, 14, 4


def frame(data: bytes) -> int:
    """The length of the first message, or 0 if it is not complete yet."""
    length = 4 + int.from_bytes(data[:4], "big") if len(data) >= 4 else 0
    return length if length <= len(data) else 0


def of_kind(*kinds: int, having: bytes = b"") -> Callable[[bytes], bool]:
    """Return a test for requests of these kinds that contain ``having``."""
    return lambda message: int.from_bytes(message[8:12], "big") in kinds and having in message


ZOOKEEPER = Wire(frame, frame, pushed=lambda message: message[4:8] == b"\xff\xff\xff\xff")
