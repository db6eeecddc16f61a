"""Imported first, it sets the wall clock of its process an hour behind."""

from __future__ import annotations

from tests.traps.wrong_clock import set_wrong

set_wrong(-3600)
