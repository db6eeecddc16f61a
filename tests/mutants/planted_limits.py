"""Bugs planted into the pools of connections, and the limits that must show each.

They stand in a copy of the source, as what runs out of something is a process of its own.
"""

from __future__ import annotations

from .bugs import bug

LIMITS = "tests/faults/test_limits.py::test_after_something_ran_out_at_any_step_all_works_again"
POSTGRES = "holdfast.stores.postgres"
MYSQL = "holdfast.stores.mysql"

LIMITED = [
    bug(
        "postgres: a connection that is being made takes two places",
        f"{LIMITS}[postgres-descriptors-sync]",
        (
            f"{POSTGRES}.blocking.port",
            "                self._dialling.add(mine)\n",
            "                self._dialling |= {mine, object()}\n",
        ),
        commands=True,
    ),
    bug(
        "postgres, asyncio: a connection that was refused keeps its place",
        f"{LIMITS}[postgres-descriptors-aio]",
        (
            f"{POSTGRES}.aio.port",
            "        except HoldfastError as wrong:\n            self._connecting -= 1\n",
            "        except HoldfastError as wrong:\n",
        ),
        commands=True,
    ),
    bug(
        "postgres: a connection that could not be made keeps its place among threads",
        f"{LIMITS}[postgres-descriptors-sync]",
        (
            f"{POSTGRES}.blocking.port",
            "            return self._dial(until)\n        finally:\n            self._dialling",
            (
                "            link = self._dial(until)\n        except GeneratorExit:\n"
                "            raise\n        else:\n            self._dialling"
            ),
        ),
        (
            f"{POSTGRES}.blocking.port",
            "            self._dialling.discard(mine)\n\n    def _all",
            "            self._dialling.discard(mine)\n        return link\n\n    def _all",
        ),
        commands=True,
    ),
    bug(
        "mysql: a connection that could not be made keeps its place among threads",
        f"{LIMITS}[mariadb-descriptors-sync]",
        (
            f"{MYSQL}.blocking.port",
            "        finally:\n            self._dialling",
            (
                "        except GeneratorExit:\n            raise\n"
                "        else:\n            self._dialling"
            ),
        ),
        commands=True,
    ),
]
