"""The command line watches its command."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from holdfast.cli.child import Child


def test_a_command_that_ends_while_it_is_looked_at_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given a command that ends between the check for its end and the check for a stop
    child = Child.__new__(Child)
    child.pid = pid = os.posix_spawn("/bin/sleep", ["sleep", "60"], os.environ)
    real = os.waitid

    def waitid(kind: int, who: int, flags: int) -> Any:
        if flags & os.WSTOPPED:
            os.kill(pid, signal.SIGKILL)
            real(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        return real(kind, who, flags)

    monkeypatch.setattr(os, "waitid", waitid)
    # Then it counts as ended, without an error
    assert child.look() == -1
    assert child.reap() == 128 + signal.SIGKILL
