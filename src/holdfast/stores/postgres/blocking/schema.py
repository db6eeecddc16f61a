"""Makes the schema, for ``holdfast schema``."""

from __future__ import annotations

import psycopg

from ....errors import StoreUnavailable
from ....runtime.blocking import boottime
from ..complaints import ServerSaid, complaint
from ..config import Settings
from ..ddl import WHOLE, is_there, layout, owners
from .link import dial

_WITHIN_S = 60.0


def apply(settings: Settings) -> str:
    """Make the schema, unless it is there; return a sentence about what was done."""
    until = boottime() + _WITHIN_S
    link = dial(settings, until)
    what = f"version {WHOLE} of the schema {settings.schema} at {settings.label}"
    try:
        link.say(layout(settings.schema), until)
        if link.say(is_there(settings.schema), until)[0][0] == b"t":
            link.say(owners(settings.schema, settings.trust), until)
            return f"{what} is there already"
        link.install(settings, until)
    except ServerSaid as said:
        raise complaint(said, settings) from said
    except (TimeoutError, psycopg.Error) as wrong:
        raise StoreUnavailable(f"the connection to {settings.label} broke: {wrong}") from wrong
    finally:
        link.close()
    return f"made {what}"
