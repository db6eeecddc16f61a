"""Arguments of callers are checked: bounds are exact, and errors name the remedy."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Callable
from typing import Any

import pytest

from holdfast import ConfigError
from holdfast.core import checks


def test_names_within_their_bounds_are_returned_unchanged() -> None:
    for name in ("x", "x" * 512, "é" * 256, "\0", "a\nb", " ", "🔒" * 128):
        assert checks.name(name) == name


@pytest.mark.parametrize(
    "value, words",
    [
        ("", "empty"),
        ("x" * 513, "513 bytes"),
        ("é" * 257, "514 bytes"),
        ("\ud800", "surrogate"),
        (b"x", "decode"),
        (bytearray(b"x"), "decode"),
        (None, "NoneType"),
        (["x"], "list"),
    ],
)
def test_what_is_no_name_is_refused(value: object, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as refusal:
        checks.name(value)
    assert len(str(refusal.value)) < 300


@pytest.mark.parametrize(
    "check, most",
    [(checks.owner, 256), (checks.label, 256), (checks.meta, 4096), (checks.name, 512)],
)
def test_the_bound_counts_bytes(check: Callable[[object], str], most: int) -> None:
    assert check("é" * (most // 2))
    with pytest.raises(ConfigError, match=f"at most {most}"):
        check("é" * (most // 2) + "x")


def test_only_metadata_may_be_empty() -> None:
    assert checks.meta("") == ""
    for check in (checks.owner, checks.label):
        with pytest.raises(ConfigError, match="empty"):
            check("")


def test_seconds_are_numbers_or_timedeltas() -> None:
    assert checks.ttl(30) == 30.0
    assert isinstance(checks.ttl(30), float)
    assert checks.ttl(dt.timedelta(minutes=1)) == 60.0
    assert checks.ttl(0.010) == 0.010
    assert checks.ttl(86_400) == 86_400.0


@pytest.mark.parametrize(
    "value", [0, -1, 0.0099, 86_400.1, float("nan"), float("inf"), 10**400, dt.timedelta(days=2)]
)
def test_a_ttl_out_of_bounds_names_them(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"ttl=.*0\.01 to 86400 seconds") as refusal:
        checks.ttl(value)
    assert len(str(refusal.value)) < 150


@pytest.mark.parametrize("value", [True, "30", None, 1j, object(), b"1"])
def test_a_ttl_that_is_no_number_is_shown(value: Any) -> None:
    with pytest.raises(ConfigError, match="seconds as a number or a timedelta"):
        checks.ttl(value)


@pytest.mark.parametrize("value", [0, -1, 1.0, True, "4", None, (1 << 20) + 1])
def test_a_count_is_a_whole_number_from_1(value: Any) -> None:
    with pytest.raises(ConfigError, match="permits"):
        checks.count("permits", value)
    assert checks.count("permits", 1 << 20) == 1 << 20


def test_the_two_arguments_of_acquire_mean_what_they_mean_to_threading() -> None:
    assert checks.wait(True, None) is None
    assert checks.wait(True, -1) is None
    assert checks.wait(True, 0) == 0.0
    assert checks.wait(True, 2.5) == 2.5
    assert checks.wait(True, threading.TIMEOUT_MAX) == threading.TIMEOUT_MAX
    assert checks.wait(False, None) == checks.wait(False, -1) == checks.TRY
    for blocking, timeout in ((False, 1), (False, 0), (True, -0.5), (True, "1"), (True, True)):
        with pytest.raises(ConfigError):
            checks.wait(blocking, timeout)
    odd: Any
    for odd, meant in ((1, None), (0, checks.TRY)):
        assert checks.wait(odd, None) == meant
    for odd in (1.0, 0.0, 2, -1, "1", None):
        with pytest.raises(ConfigError, match="timeout="):
            checks.wait(odd, None)
