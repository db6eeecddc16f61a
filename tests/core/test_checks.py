"""Arguments of callers are checked: bounds are exact, and errors name the remedy."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from holdfast import ConfigError
from holdfast.core import checks


@pytest.mark.parametrize(
    "check, most",
    [(checks.owner, 256), (checks.label, 256), (checks.meta, 4096), (checks.name, 512)],
)
def test_the_bound_counts_bytes_and_only_metadata_may_be_empty(
    check: Callable[[object], str], most: int
) -> None:
    assert check("é" * (most // 2))
    with pytest.raises(ConfigError, match=f"at most {most}"):
        check("é" * (most // 2) + "x")
    if check is checks.meta:
        assert check("") == ""
    else:
        with pytest.raises(ConfigError, match="empty"):
            check("")


def test_the_largest_and_the_smallest_are_allowed() -> None:
    assert [checks.ttl(seconds) for seconds in (0.010, 86_400)] == [0.010, 86_400.0]
    assert checks.count("permits", 1 << 20) == 1 << 20
    for name in ("\0", "a\nb", " "):
        assert checks.name(name) == name


def test_the_two_arguments_of_acquire_mean_what_they_mean_to_threading() -> None:
    most = threading.TIMEOUT_MAX
    for timeout, meant in ((None, None), (-1, None), (0, 0.0), (2.5, 2.5), (most, most)):
        assert checks.wait(True, timeout) == meant
    assert checks.wait(False, None) == checks.wait(False, -1) == checks.TRY
    assert [checks.wait(one, None) for one in (1, 0)] == [None, checks.TRY]
    for blocking, timeout in ((False, 1), (False, 0), (True, -0.5), (True, "1"), (True, True)):
        with pytest.raises(ConfigError):
            checks.wait(blocking, timeout)
    for wrong in (1.0, 0.0, 2, -1, "1", None):
        with pytest.raises(ConfigError, match="timeout="):
            checks.wait(wrong, None)
