"""The fixtures of tests that are written once for both faces."""

from tests.faced import (  # noqa: F401 # they are fixtures, and a hook
    aio,
    at,
    pytest_pyfunc_call,
    sync,
)
