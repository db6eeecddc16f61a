"""Finds the failures to connect after which no later attempt can succeed."""

from __future__ import annotations

import importlib.util
import itertools
from typing import Any

from kazoo.exceptions import AuthFailedError

from ....errors import ConfigError
from ....runtime import tls
from ..config import Settings

#: Maximum steps of a login by SASL: it takes two or three, with Kerberos a few more.
STEPS_MAX = 20
_NO_SASL = "the server doesn't continue a login by SASL"
#: Number of failed TLS handshakes, without a success, after which the settings must be wrong. A
#: restarting server causes fewer failures.
HANDSHAKES = 3


def needed(settings: Settings) -> None:
    """Raise ``ConfigError`` if this kind of login needs a package that isn't installed."""
    if not settings.sasl:
        return
    lacking = "" if importlib.util.find_spec("puresasl") else "pure-sasl"
    if not lacking and settings.sasl.get("mechanism") == "GSSAPI":
        kerberos = importlib.import_module("puresasl.mechanisms").have_kerberos
        lacking = "" if kerberos else "kerberos"
    if lacking:
        raise ConfigError(
            f"{settings.label}: this login by SASL needs the package {lacking}: pip install "
            + lacking
        )


class Attempts:
    """The attempts to connect of one driver."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        #: True if an attempt has succeeded: so the settings are right, and later failures may be
        #: temporary.
        self.made = False
        self._handshakes = 0

    @staticmethod
    def bound_login(connection: Any) -> None:
        """Limit the steps of kazoo's login by SASL.

        A server without SASL sends an empty answer to each step, so the login would never end."""
        log_in, submit = connection._authenticate_with_sasl, connection._submit

        def bounded(host: str, timeout: float) -> None:
            steps = itertools.count(1)

            def counted(*args: Any) -> Any:
                if next(steps) > STEPS_MAX:
                    raise AuthFailedError(_NO_SASL)
                return submit(*args)

            connection._submit = counted
            try:
                log_in(host, timeout)
            finally:
                connection._submit = submit

        connection._authenticate_with_sasl = bounded

    def failed(self, wrong: Exception) -> ConfigError | None:
        """Return an error if this failure means that all later attempts fail too."""
        if self.made:
            return None
        label = self._settings.label
        if wrong.args == (_NO_SASL,):
            return ConfigError(
                f"{label} supports no login by SASL: leave sasl= out, or give the servers a "
                "SASLAuthenticationProvider and a login configuration"
            )
        said = tls.failure(wrong) if self._settings.tls else None
        if said is None:
            return None
        if "CERTIFICATE_VERIFY_FAILED" in str(said):
            return ConfigError(
                f"the certificate of {label} is not trusted, or is for another host: name the "
                f"authority that signed it (ca=), and use the host name of the certificate: {said}"
            )
        self._handshakes += 1
        if self._handshakes < HANDSHAKES:
            return None
        return ConfigError(
            f"{label} doesn't use TLS, or shares no version of TLS with this client: name its "
            f"secureClientPort, or leave out the options for TLS: {said}"
        )
