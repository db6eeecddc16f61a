"""Notices that a later release has changed the layout of the nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kazoo.client import KazooClient
from kazoo.protocol import serialization as wire
from kazoo.protocol.states import EventType

from ....core.layout import newer
from ....errors import ConfigError
from ..config import Settings
from ..names import LAYOUT, mark_of


class Newer:
    """Calls ``refuse`` with the error if the mark of a later layout exists, or is made."""

    def __init__(
        self, client: KazooClient, settings: Settings, refuse: Callable[[ConfigError], None]
    ) -> None:
        self._client = client
        self._path = f"{settings.root}/{mark_of(LAYOUT + 1)}"
        self._label, self._tell = settings.label, refuse

    def look(self) -> None:
        """On kazoo's thread: ask before all other requests of a new connection, and watch."""
        self._client._queue.appendleft((wire.Exists(self._path, self._heard), self))

    def set(self, stat: Any = None) -> None:
        """Receive the answer: None if there is no mark."""
        if stat is not None:
            self._refuse()

    def set_exception(self, wrong: BaseException) -> None:
        """Receive the end of the connection: the next one asks again."""

    def _refuse(self) -> None:
        self._tell(newer(self._label, LAYOUT + 1, LAYOUT))

    def _heard(self, event: Any) -> None:
        if event.type == EventType.CREATED:
            self._refuse()
