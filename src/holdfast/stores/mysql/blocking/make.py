"""Making the tables and procedures for ``holdfast schema``."""

from __future__ import annotations

from ..complaints import ServerSaid, complaint
from ..config import Settings
from ..exchange import MAKE_S
from ..schema import ALREADY, VERSION, layout_of, refuse_newer, statements
from .link import dial


def make(settings: Settings) -> str:
    """Make missing tables and procedures; return a sentence that reports it."""
    link = dial(settings, MAKE_S)
    try:
        refuse_newer(link.rows(layout_of(settings.prefix), MAKE_S), settings.label)
        for sql in statements(settings.prefix):
            try:
                link.rows(sql, MAKE_S)
            except ServerSaid as said:
                if said.code not in ALREADY:
                    raise complaint(said, settings.label) from said
    finally:
        link.close()
    return f"{settings.label} has the tables and the procedures of version {VERSION}"
