"""The TLS options of a URL, checked when the URL is read: a wrong file must not look like a server
that can't be reached."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError

if TYPE_CHECKING:
    import ssl


def context(scheme: str, names: Mapping[str, str], given: Mapping[str, Any]) -> ssl.SSLContext:
    """Return a context with the certificates of these options; ``ConfigError`` if an option is
    wrong.

    ``names``: the option names of the store for ``ca`` (a file), ``ca_path``, ``ca_data``,
    ``cert``, ``key``, ``password`` (of the key) and ``ciphers``; a store need not have all.
    """
    import ssl  # here, because few programs need it, and it is slow to import

    said: dict[str, Any] = {part: given.get(name) or None for part, name in names.items()}

    def use(part: str, call: Callable[..., Any], otherwise: str, **what: Any) -> Any:
        try:
            return call(**what)
        except (OSError, ValueError, TypeError) as wrong:
            if isinstance(wrong, OSError) and not isinstance(wrong, ssl.SSLError):
                otherwise = f"its file can't be read: {wrong.strerror}"
            raise ConfigError(f"{scheme}:// option {names[part]}: {otherwise}") from None

    if said.get("ca_path"):
        use("ca_path", os.listdir, "there is no such folder", path=said["ca_path"])
    authorities: dict[str, Any] = {}
    for part, where in (("ca", "cafile"), ("ca_path", "capath"), ("ca_data", "cadata")):
        if said.get(part):
            authorities[where] = said[part]
            none = "there is no certificate in it, as PEM"
            use(part, ssl.create_default_context, none, **{where: said[part]})
    made = ssl.create_default_context(**authorities)
    if said.get("key") and not said.get("cert"):
        raise ConfigError(
            f"{scheme}:// option {names['key']}: a key belongs to a certificate: name that, too, "
            f"as {names['cert']}="
        )
    if said.get("cert"):
        use(
            "cert",
            made.load_cert_chain,
            "the certificate, its key, or the password of the key is wrong",
            certfile=said["cert"],
            keyfile=said.get("key"),
            # Without a password, OpenSSL would ask for one on the terminal.
            password=said.get("password") or (lambda: ""),
        )
    if said.get("ciphers"):
        ciphers = said["ciphers"]
        use("ciphers", lambda: made.set_ciphers(ciphers), "OpenSSL knows none of these")
    return made


def failure(wrong: BaseException) -> OSError | None:
    """Return the failure of the handshake that caused this error, or None."""
    import ssl

    cause: BaseException | None = wrong
    while cause is not None:
        if isinstance(cause, ssl.SSLError | ConnectionResetError):
            return cause
        cause = cause.__cause__ or cause.__context__
    return None
