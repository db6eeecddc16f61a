"""Network namespaces on an isolated bridge, three by default, and cuts between them."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from collections.abc import Sequence

import pytest

from .process import Ended


def _run(*command: str, check: bool = True) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    assert not check or done.returncode == 0, (command, done.stderr)


class Islands(Ended):
    """Namespaces ``names`` with the addresses ``hosts``. Skipped where they cannot be made."""

    def __init__(self, many: int = 3) -> None:
        if os.geteuid() != 0:
            pytest.skip("network namespaces need root")
        if not (shutil.which("ip") and shutil.which("iptables")):
            pytest.skip("network namespaces need ip and iptables")
        mark = secrets.token_hex(3)
        self._bridge = f"hf{mark}"
        self.names = [f"hf{mark}-{number}" for number in range(1, many + 1)]
        net = secrets.randbelow(200) + 20
        self.hosts = [f"10.91.{net}.{number}" for number in range(1, many + 1)]
        #: The address of the test itself, from which all namespaces are reachable.
        self.gate = f"10.91.{net}.254"
        try:
            self._make()
        except AssertionError as wrong:
            self.close()
            pytest.skip(f"no network namespaces here: {wrong}")

    def _make(self) -> None:
        _run("ip", "link", "add", self._bridge, "type", "bridge")
        _run("ip", "addr", "add", f"{self.gate}/24", "dev", self._bridge)
        _run("ip", "link", "set", self._bridge, "up")
        for number, (name, host) in enumerate(zip(self.names, self.hosts, strict=True), 1):
            outer = f"{self._bridge}v{number}"
            _run("ip", "netns", "add", name)
            _run("ip", "link", "add", outer, "type", "veth", "peer", "name", "e0", "netns", name)
            _run("ip", "link", "set", outer, "master", self._bridge, "up")
            _run("ip", "-n", name, "addr", "add", f"{host}/24", "dev", "e0")
            _run("ip", "-n", name, "link", "set", "e0", "up")
            _run("ip", "-n", name, "link", "set", "lo", "up")

    def cut_off(self, one: int) -> None:
        """Cut the network between this namespace and the others; the test still reaches all."""
        for other in range(len(self.names)):
            if other != one:
                for here, there in ((one, other), (other, one)):
                    drop = ("-A", "INPUT", "-s", self.hosts[there], "-j", "DROP")
                    _run("ip", "netns", "exec", self.names[here], "iptables", *drop)

    def heal(self) -> None:
        for name in self.names:
            _run("ip", "netns", "exec", name, "iptables", "-F")

    def places(self) -> Sequence[tuple[str, str]]:
        """The pair (address, namespace) of each namespace."""
        return list(zip(self.hosts, self.names, strict=True))

    def close(self) -> None:
        for name in self.names:
            _run("ip", "netns", "del", name, check=False)
        _run("ip", "link", "del", self._bridge, check=False)
