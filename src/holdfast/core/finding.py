"""What an examination of a store finds: the words of ``holdfast doctor``."""

from __future__ import annotations

import enum
from typing import NamedTuple


class Level(enum.StrEnum):
    """How it stands: as it should, worth a look, or unusable."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class Finding(NamedTuple):
    """One thing that was looked at. ``remedy`` says what to do, unless all is well."""

    level: Level
    subject: str
    text: str
    remedy: str = ""
