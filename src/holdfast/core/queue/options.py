"""Checks of the options of a queue."""

from __future__ import annotations

import math
from typing import Any

from ...errors import ConfigError
from .. import checks
from .model import (
    ATTEMPTS_MAX,
    DELAY_S_MAX,
    INTERVAL_S_MAX,
    RATE_MAX,
    WINDOW_S_MAX,
    Pace,
    Patience,
    Start,
)
from .queue import Options, Retry


def options(
    *,
    min_interval: Any,
    interval_from: Any,
    rate: Any,
    ttl: float,
    max_attempts: Any,
    retry_delay: Any,
    retry_delay_max: Any,
    on_dead: Any,
    dedup_window: Any,
) -> Options:
    """Return the options of a queue from the caller's arguments, each of which is checked."""
    pace = Pace(
        checks.seconds("min_interval", min_interval, 0.0, INTERVAL_S_MAX),
        _one_of("interval_from", interval_from, Start.ACK, Start.TAKE),
        _rate(rate),
    )
    attempts = checks.count("max_attempts", max_attempts, ATTEMPTS_MAX)
    patience = Patience(attempts, _one_of("on_dead", on_dead, "skip", "block") == "block")
    first = checks.seconds("retry_delay", retry_delay, 0.0, DELAY_S_MAX)
    longest = checks.seconds("retry_delay_max", retry_delay_max, 0.0, DELAY_S_MAX)
    if longest < first:
        raise ConfigError(f"retry_delay_max={longest:g} s is less than retry_delay={first:g} s")
    kept = checks.seconds("dedup_window", dedup_window, 0.0, WINDOW_S_MAX)
    return Options(pace, patience, Retry(first, longest), ttl, kept)


def _rate(value: Any) -> float:
    if value is None or value == math.inf:
        return math.inf
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ConfigError(
            f"rate must be deliveries per second as a number, not {checks.shown(value)}"
        )
    if not 0 < value <= RATE_MAX:
        raise ConfigError(
            f"rate={checks.shown(value)} per second is not above 0 and up to {RATE_MAX:g}"
        )
    return float(value)


def _one_of(what: str, value: Any, *known: Any) -> Any:
    for one in known:
        if value == one:
            return one
    words = " or ".join(repr(str(one)) for one in known)
    raise ConfigError(f"{what}={checks.shown(value)} is unknown; known: {words}")
