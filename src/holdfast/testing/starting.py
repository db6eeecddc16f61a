"""The function that starts the other processes of a test."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from typing import Any

#: Same parameters as ``subprocess.Popen``. Tests that start very many processes may put a faster
#: function here.
popen: Callable[..., subprocess.Popen[Any]] = subprocess.Popen
