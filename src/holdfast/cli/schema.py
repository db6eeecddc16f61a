"""``holdfast schema``: print or create the tables of a store in a database."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from ..core.drivers import needed
from ..errors import ConfigError
from ..url import BUILTIN, default_url, find
from .text import say


def schema(options: argparse.Namespace) -> int:
    """Print the statements that create the tables, or execute them; return 0 after success."""
    source = options.url or (f"{_scheme(options.what)}://" if options.what else default_url())
    found, url = find(source)
    module: Any = found
    if not hasattr(module, "schema_script"):
        raise ConfigError(f"{url.scheme}:// needs no schema: there is nothing to create")
    if options.what and BUILTIN.get(url.scheme) != BUILTIN[_scheme(options.what)]:
        raise ConfigError(f"{url} does not match the requested schema, {options.what}")
    if options.apply:
        with needed():
            say(module.apply_schema(url))
    else:
        sys.stdout.write(module.schema_script(url))
    return 0


def _scheme(what: str) -> str:
    return {"postgres": "postgresql"}.get(what, what)
