"""``python -m holdfast`` is the command ``holdfast``."""

from __future__ import annotations

import sys

from .cli import main

sys.exit(main())
