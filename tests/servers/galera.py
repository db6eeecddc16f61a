"""A Galera cluster of MariaDB on the loopback: each node accepts writes.

The nodes begin with copies of one data folder, so that no node has to send all its data to another.
Such a transfer needs scripts that the bare server package does not have.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from .mariadb_server import MariadbServer, own_folder
from .process import SOON_S, Ended, free_port, until

#: The paths of the library on Debian and other systems.
PROVIDERS = ("/usr/lib/galera/libgalera_smm.so", "/usr/lib64/galera-4/libgalera_smm.so")
HASTY = (
    "evs.keepalive_period=PT0.5S;evs.suspect_timeout=PT4S;evs.inactive_timeout=PT8S;"
    "evs.install_timeout=PT8S;gcache.size=16M"
)
#: The method by which a node gets the state of another node. It has the data already, so it needs
#: only the position of the other. It passes the name of a file, and the other writes its position
#: there.
METHOD = "seeded"
SCRIPT = """#!/bin/sh
while [ $# -gt 0 ]; do
    case $1 in
    --role) role=$2 ;;
    --address) address=$2 ;;
    --datadir) folder=$2 ;;
    --gtid) gtid=$2 ;;
    esac
    shift
done
if [ "$role" = donor ]; then
    echo "$gtid" >"${address%%:*}.new" && mv "${address%%:*}.new" "${address%%:*}"
    echo "done $gtid"
else
    file=${folder%/}/../state
    echo "ready $file"
    while [ ! -s "$file" ]; do sleep 0.05; done
    cat "$file"
fi
"""


def provider() -> str:
    """The path of the library; without it the test is skipped."""
    found = next((one for one in PROVIDERS if Path(one).exists()), "")
    if not found:
        pytest.skip(f"no {PROVIDERS[0]}; ./dev test installs it where it may")
    return found


class Galera(Ended):
    """A cluster of ``nodes`` nodes; all of them have joined."""

    def __init__(self, folder: Path, nodes: int = 3) -> None:
        self.nodes: list[MariadbServer] = []
        self._folder = folder
        self._library = provider()
        self._scripts = own_folder()
        script = self._scripts / f"wsrep_sst_{METHOD}"
        script.write_text(SCRIPT, encoding="ascii")
        script.chmod(0o755)
        self._ports = [free_port() for _ in range(nodes)]
        try:
            self._seed()
            for number in range(nodes):
                self._add(number, self._data, new=number == 0)
                # The nodes start one after the other, because a node can help only one other node
                # to join.
                until(self.whole, f"{number + 1} nodes are in", 2 * SOON_S)
        except BaseException:
            self.close()
            raise

    def _seed(self) -> None:
        """Start a first node and end it again; the other nodes start with its data."""
        self._add(0, None, new=True)
        (seed,) = self.nodes
        seed.terminate()
        self._data = self._folder / "seed"
        shutil.move(seed.data, self._data)
        for old in ("galera.cache", "gvwstate.dat"):
            (self._data / old).unlink(missing_ok=True)
        seed.close()
        self.nodes.clear()

    def _add(self, number: int, data: Path | None, *, new: bool) -> None:
        place = self._folder / f"{number}-{len(self.nodes)}-{'first' if data is None else 'node'}"
        place.mkdir()
        port = self._ports[number]
        others = ",".join(f"127.0.0.1:{one}" for one in self._ports)
        receive = free_port()
        listens = f"gmcast.listen_addr=tcp://127.0.0.1:{port};ist.recv_addr=127.0.0.1:{receive}"
        settings = [
            *("binlog_format=ROW", "innodb_autoinc_lock_mode=2", "innodb_lock_wait_timeout=2"),
            *("wsrep_on=ON", f"wsrep_sst_method={METHOD}", f"wsrep_provider={self._library}"),
            *("wsrep_cluster_name=holdfast", f"wsrep_node_name=n{number}"),
            *("wsrep_node_address=127.0.0.1", f"wsrep_cluster_address=gcomm://{others}"),
            f"wsrep_provider_options={listens};{HASTY}",
            *(["wsrep_new_cluster"] if new else []),
        ]
        before = os.environ["PATH"]
        os.environ["PATH"] = f"{self._scripts}{os.pathsep}{before}"
        try:
            self.nodes.append(MariadbServer(place, *settings, data=data, users=data is None))
        finally:
            os.environ["PATH"] = before

    def whole(self) -> bool:
        """Return whether each node is ready and reports that all started nodes have joined."""
        sizes = [dict(one.ask("SHOW STATUS LIKE 'wsrep%'")) for one in self.nodes]
        return all(
            seen["wsrep_cluster_size"] == str(len(self.nodes)) and seen["wsrep_ready"] == "ON"
            for seen in sizes
        )

    @property
    def urls(self) -> list[str]:
        return [one.url for one in self.nodes]

    def close(self) -> None:
        for one in self.nodes:
            one.close()
        shutil.rmtree(self._scripts, ignore_errors=True)
