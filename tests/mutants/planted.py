"""Planted bugs, and the test that must catch each: mistakes that were found in holdfast.

Each finding of a review has one, and each class of faults that a generator proves. The tests use
real files, processes and servers. ``tests/mutants/simulated.py`` has the bugs of the core that
virtual time can show; `tests.mutants.drawn` makes other bugs by rule.
"""

from __future__ import annotations

from .planted_core import CORE
from .planted_files import FILES
from .planted_jobs import JOBS
from .planted_redis import REDIS
from .planted_sql import SQL

PLANTED = [*CORE, *JOBS, *FILES, *REDIS, *SQL]
