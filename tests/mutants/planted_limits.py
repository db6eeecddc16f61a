"""Bugs planted into the pools of connections, and the limits that must show each.

They stand in a copy of the source, as what runs out of something is a process of its own.
"""

from __future__ import annotations

from .bugs import bug

LIMITS = "tests/faults/test_limits.py::test_after_something_ran_out_at_any_step_all_works_again"
POSTGRES = "holdfast.stores.postgres"

LIMITED = [
    bug(
        "postgres: a connection that is being made takes two places",
        f"{LIMITS}[postgres-descriptors-sync]",
        (
            f"{POSTGRES}.blocking.port",
            "            self._dialling += 1\n            return True\n",
            "            self._dialling += 2\n            return True\n",
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
        "mysql: a connection that could not be made keeps its place among threads",
        f"{LIMITS}[mariadb-descriptors-sync]",
        (
            "holdfast.runtime.making.blocking",
            "        finally:\n            self._dialled()\n\n    def _short",
            (
                "        except GeneratorExit:\n            raise\n        else:\n"
                "            self._dialled()\n\n    def _short"
            ),
        ),
        commands=True,
    ),
]
