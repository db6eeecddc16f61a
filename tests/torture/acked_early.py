"""A planted bug for each process that imports this module: each job is acked right after its
take."""

from __future__ import annotations

from tests.mutants.plant import Edit, plant

MADE = "                    made = self._queue._made(self._take, taken, since, self.suspect)\n"
ACK = """                    for one in made:
                        await one._settle(one._ack_request())
"""
plant([Edit("holdfast.core.queue.taking", MADE, MADE + ACK)])
