"""Checks of the options of a guard."""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple, Required, TypedDict

from ...errors import ConfigError
from .. import checks
from .codec import Codec
from .elsewhere import CachePort
from .model import VALUE_S_MAX

LEASE_S_MIN = 0.05
#: Seconds for which ``on_timeout="stale"`` keeps a value beyond its stale time.
KEEP_S = 86_400.0
EARLY_MAX = 100.0
LOCAL_S_MAX = 3600.0


class GuardOptions(TypedDict, total=False):
    """The options of ``Client.guard()``, for ``cached()``; ``guard()`` describes them."""

    ttl: Required[float]
    stale: float
    timeout: float | None
    on_timeout: Literal["error", "stale", "compute"]
    on_store_error: Literal["error", "compute"]
    refresh: Literal["foreground", "background"]
    lease: float
    early: float
    jitter: float
    failure_ttl: float
    failure_ttl_max: float
    local_ttl: float
    local_entries_max: int
    max_bytes: int | None
    codec: Codec | None
    cache: object


class Failures(NamedTuple):
    """Seconds for which a failure is remembered: after the first failure, and at most after more
    failures."""

    first: float
    longest: float


class Options(NamedTuple):
    """The checked options of a guard."""

    ttl: float
    stale: float
    keep: float
    timeout: float
    on_timeout: str
    on_store_error: str
    background: bool
    lease: float
    early: float
    jitter: float
    failures: Failures
    local_ttl: float
    local_entries_max: int
    max_bytes: int
    codec: Codec | None
    cache: CachePort | None


def options(
    *,
    ttl: Any,
    stale: Any,
    timeout: Any,
    on_timeout: Any,
    on_store_error: Any,
    refresh: Any,
    lease: Any,
    early: Any,
    jitter: Any,
    failure_ttl: Any,
    failure_ttl_max: Any,
    local_ttl: Any,
    local_entries_max: Any,
    max_bytes: Any,
    codec: Any,
    most: int,
    cache: CachePort | None = None,
) -> Options:
    """Check the caller's options of a guard; ``most``: the store's limit of bytes in a value."""
    late = _one_of("on_timeout", on_timeout, "error", "stale", "compute")
    first = checks.seconds("failure_ttl", failure_ttl, 0.0, VALUE_S_MAX)
    wait = checks.wait(True, timeout)
    size = most if max_bytes is None else checks.count("max_bytes", max_bytes, most)
    if codec is not None and not (hasattr(codec, "encode") and hasattr(codec, "decode")):
        raise ConfigError(
            f"a codec has encode(value) and decode(data); {checks.shown(codec)} hasn't"
        )
    return Options(
        ttl=checks.seconds("ttl", ttl, 0.001, VALUE_S_MAX),
        stale=checks.seconds("stale", stale, 0.0, VALUE_S_MAX),
        keep=KEEP_S if late == "stale" else 0.0,
        timeout=math.inf if wait is None else wait,
        on_timeout=late,
        on_store_error=_one_of("on_store_error", on_store_error, "error", "compute"),
        background=_one_of("refresh", refresh, "foreground", "background") == "background",
        lease=checks.seconds("lease", lease, LEASE_S_MIN, 86_400.0),
        early=checks.seconds("early", early, 0.0, EARLY_MAX),
        jitter=checks.seconds("jitter", jitter, 0.0, 1.0),
        failures=Failures(
            first, max(first, checks.seconds("failure_ttl_max", failure_ttl_max, 0.0, VALUE_S_MAX))
        ),
        local_ttl=checks.seconds("local_ttl", local_ttl, 0.0, LOCAL_S_MAX),
        local_entries_max=checks.count("local_entries_max", local_entries_max, 1_000_000),
        max_bytes=size,
        codec=codec,
        cache=cache,
    )


def _one_of(what: str, value: Any, *known: str) -> str:
    for one in known:
        if value == one:
            return one
    words = " or ".join(repr(one) for one in known)
    raise ConfigError(f"{what}={checks.shown(value)} is unknown; known: {words}")
