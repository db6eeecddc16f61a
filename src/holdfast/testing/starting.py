"""The function that starts the other processes of a test."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from typing import Any

#: It takes what ``subprocess.Popen`` takes. Tests that start very many may put a quicker one here.
popen: Callable[..., subprocess.Popen[Any]] = subprocess.Popen
