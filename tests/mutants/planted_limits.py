"""Bugs planted into the pools of connections, and the tests of limits that must catch each.

A separate process reaches the limit. So a bug with ``commands`` is planted into a copy of the
source, from which this process starts.
"""

from __future__ import annotations

from .bugs import bug

LIMITS = "tests/faults/test_limits.py::test_after_something_ran_out_at_any_step_all_works_again"
NO_PLACE = (
    "tests/faults/test_slow_connecting.py::test_connections_that_could_not_be_made_take_no_place"
)
POSTGRES, MAKING = "holdfast.stores.postgres", "holdfast.runtime.making.blocking"

LIMITED = [
    bug(
        "postgres: a connection that is being made takes two places",
        f"{LIMITS}[postgres-descriptors-sync]",
        (
            MAKING,
            "                self._makings.add(mine)\n",
            "                self._makings |= {mine, _Making()}\n",
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
    *(
        bug(
            f"{store}: a connection that could not be made keeps its place among threads",
            f"{NO_PLACE}[{server}-sync]",
            (
                MAKING,
                "        finally:\n            if not begun",
                (
                    "        except Exception:\n            begun = True\n            raise\n"
                    "        finally:\n            if not begun"
                ),
            ),
        )
        for store, server in (("postgres", "postgres"), ("mysql", "mariadb"))
    ),
]
