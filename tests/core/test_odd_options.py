"""A client with options or logins that can never work is refused when it is made.

One ``ConfigError`` names the option. No message shows a secret, and no driver raises its own error.
"""

from __future__ import annotations

import subprocess
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import quote

import pytest

from holdfast import AsyncClient, Client, ConfigError
from holdfast.url import BUILTIN, FILES, find
from tests.servers.process import need
from tests.servers.tls import Certificate

SECRET = "qzxsecret"
NUMBERS = ["", "-1", "x", "1.5", "\u0661", "9" * 5000, "1e3", "None"]
SWITCH = ["", "on", "true", "2", "ü"]
TIMES = ["", "x", "nan", "-1", "1e999", "1 s"]
WORDS = ["", "x", "ON ", "ü", "None", "' or 1=1", "9" * 5000]
FILES_OF_NONE = ["/nowhere/x.pem", "/", __file__]
#: Values that options must refuse, by their names.
REFUSED: Mapping[str, list[str]] = {
    "network_fs wake sync recovery durable create_schema pooler channel_binding": WORDS,
    "gssencmode load_balance_hosts sslcertmode sslmode sslnegotiation ssl_mode": WORDS,
    "recipe acl sasl tls check_hostname client fair fenced permits unit signal": WORDS,
    "ssl_max_protocol_version ssl_min_protocol_version": WORDS[1:],
    "ssl_cert_reqs": [one for one in WORDS if one != "None"],
    "target_session_attrs": [*WORDS, "standby", "read-only"],
    "db virtual_host keepalives keepalives_count keepalives_idle": NUMBERS,
    "keepalives_interval tcp_user_timeout": NUMBERS,
    "protocol": [*NUMBERS, "1", "4"],
    "replicas": [*NUMBERS, "101"],
    "ssl_min_version": [*NUMBERS, "1", "TLSv1"],
    "pool": [*NUMBERS, "0", "1001"],
    "socket_connect_timeout read_timeout write_timeout fair_wait": TIMES,
    "grace": [*TIMES, "0.1", "1e6"],
    "session": [*TIMES, "0.1"],
    "connect_timeout": ["x", "nan", "1 s", "ü"],
    "gssdelegation sslcompression sslsni": SWITCH,
    "ssl_include_verify_flags ssl_exclude_verify_flags": ["x", "VERIFY_NOTHING"],
    "ssl_ca_certs ssl_certfile ssl_ca ssl_cert": FILES_OF_NONE,
    "ssl_ca_path ssl_keyfile ssl_key": ["/nowhere/x.pem", __file__],
    "ca certfile": ["", *FILES_OF_NONE],
    "keyfile": ["", "/nowhere/key.pem", __file__],
    "ssl_ca_data ssl_ciphers": ["x", "ü"],
    "prefix": ["a b", "ü", "a" * 200, "a\\b"],
    "schema": ["", "A", "a b", "pg_x", "a" * 64, "ü"],
    "trust": ["", "a b", "ü"],
    "port": ["x", "-1", "65536", "5432,x"],
}
WRONG = {option: values for options, values in REFUSED.items() for option in options.split()}
#: The same for one scheme, where its values differ.
OWN: Mapping[tuple[str, str], list[str]] = {
    ("redis+plain", "prefix"): ["a" * 200],
    ("rediss+timestamp", "prefix"): ["a" * 200],
    ("redis+redisson", "prefix"): ["a" * 200],
    ("mysql", "prefix"): ["", "1a", "a b", "ü", "a" * 31],
    ("mysql", "connect_timeout"): TIMES,
    ("zookeeper", "prefix"): ["a b", "ü", "..", "a//b"],
}
#: Valid texts for any option that is a text, and for any user and password.
TEXTS = ["", "a", "ü", "中文", "😀", "a b", "a'b\"c\\d", "%", "a:b@c/d?e#f&g=h", "x" * 3000]
#: Texts that cannot be sent to any server.
NO_TEXTS = ["%00", "%FF", "a%E9", "\udcff"]
BASES = {
    "memory": "memory://x",
    "sqlite": "sqlite:///tmp/x.db",
    "redis": "redis://{login}127.0.0.1/0",
    "rediss": "rediss://{login}127.0.0.1/0",
    "redis+unix": "redis+unix://{login}/tmp/redis.sock",
    "rediss+sentinel": "rediss+sentinel://{login}127.0.0.1/main/0",
    "redis+cluster": "redis+cluster://{login}127.0.0.1",
    "redis+plain": "redis+plain://{login}127.0.0.1/0",
    "rediss+timestamp": "rediss+timestamp://{login}127.0.0.1/0",
    "redis+redisson": "redis+redisson://{login}127.0.0.1/0",
    "postgresql": "postgresql://{login}127.0.0.1/db",
    "mysql": "mysql://{login}127.0.0.1/db",
    "zookeeper": "zookeeper://{login}127.0.0.1/chroot",
}


def options(scheme: str) -> list[str]:
    """Return every option of a scheme."""
    return sorted(find(BASES[scheme].format(login=""))[0].OPTIONS)


def told(url: str, face: type[Client | AsyncClient]) -> str:
    """Return the error for this URL, or nothing; check that no traceback shows the secret."""
    said = ""
    try:
        client = face(url)
        shown = f"{client!r} {client.url} {client.lock('x')!r}"
    except ConfigError as wrong:
        said, shown = str(wrong), "".join(traceback.format_exception(wrong))
    assert SECRET not in shown, f"{url!r} shows its secret: {shown}"
    return said


def urls(scheme: str) -> Iterator[tuple[str, str]]:
    """Return URLs with odd logins and options, and the option that each error must name."""
    known, login = options(scheme), "" if scheme in FILES else f"u:{SECRET}{{}}@"
    for option in [*known, *sorted(WRONG.keys() - set(known))]:
        values = OWN.get((scheme, option), WRONG.get(option, []))
        for text in values if option in known else values[-1:]:
            where = BASES[scheme].format(login=login.format(""))
            yield f"{where}?{option}={quote(text, safe='')}", option
        if "password" in option and not values:
            yield f"{BASES[scheme].format(login='')}?{option}={SECRET}", ""
    for text in TEXTS if login else ():
        quoted = quote(text, safe="")
        yield BASES[scheme].format(login=f"{quoted or 'u'}:{SECRET}{quoted}@"), ""


@pytest.mark.parametrize("scheme", sorted(BASES))
def test_every_option_value_is_accepted_or_refused_by_name(scheme: str) -> None:
    for number, (url, refused) in enumerate(urls(scheme)):
        said = told(url, (Client, AsyncClient)[number % 2])
        if refused:
            assert said, f"{url!r} is taken"
        assert refused in said or "TLS" in said, f"{url!r}: {refused} isn't named: {said}"
        assert refused or not said or "TLS" in said, f"{url!r} is refused: {said}"


@pytest.mark.parametrize("scheme", sorted(BASES))
def test_every_option_is_tried_with_what_is_wrong_or_is_known_to_be_any_text(scheme: str) -> None:
    texts = {
        *("application_name", "charset", "client_encoding", "client_name", "dbname", "gsslib"),
        *("host", "hostaddr", "keyfile_password", "krbsrvname", "options", "passfile", "password"),
        *("require_auth", "requirepeer", "sentinel_password", "sentinel_username", "service"),
        *("ssl_password", "sslpassword", "unix_socket", "user", "username", "socket_keepalive"),
        *("ssl_check_hostname", "ssl_validate_ocsp", "ssl_validate_ocsp_stapled"),
        # Files that libpq reads when it connects, and options that have no meaning here
        *("sslcert", "sslcrl", "sslcrldir", "sslkey", "sslrootcert", "decode_responses"),
        *("encoding", "encoding_errors", "health_check_interval", "legacy_responses"),
        *("max_connections", "retry_on_error", "retry_on_timeout", "socket_read_size"),
        *("socket_timeout", "timeout", "version", "layout", "token", "value", "clock"),
    }
    assert {*options(scheme)} <= WRONG.keys() | texts


@pytest.mark.parametrize(
    "url, words",
    [
        ("redis://h/0?ssl_cert_reqs=none", "option ssl_cert_reqs: .* write rediss"),
        ("valkey://h/0?ssl_ca_certs=/x", "option ssl_ca_certs: .* write valkeys"),
        ("redis+plain://h/0?ssl_check_hostname=no", "doesn't use TLS"),
        ("redis+unix:///x.sock?ssl_cert_reqs=none", "doesn't use TLS; leave it out"),
        ("rediss://h/0?ssl_keyfile=/x", "option ssl_keyfile: .* ssl_certfile="),
        ("mysql://h/db?ssl_ca=/x&ssl_mode=disabled", "option ssl_ca: .*ssl_mode="),
        ("mysql://h/db?ssl_cert=/x", "option ssl_cert: .*ssl_mode="),
        ("zookeeper://h?ca=/x&tls=off", "option ca: .*tls=on"),
        ("zookeeper://h?check_hostname=off", "option check_hostname: .*tls=on"),
        ("zookeeper://:secret@h", "no user"),
        ("postgresql://h/db?target_session_attrs=standby", "can be written to"),
        ("postgresql://h:" + "9" * 5000 + "/db", "a host and port"),
        ("redis://h:" + "9" * 5000, "a host and port"),
        ("redis://h:abc", "a number from 1 to 65535; write host"),
        ("redis://h/" + "9" * 5000, "isn't a database"),
        ("mysql://h:" + "9" * 5000 + "/db", "a host and port"),
        ("redis+cluster://h:" + "9" * 5000, "host and port"),
    ],
)
@pytest.mark.parametrize("face", [Client, AsyncClient])
def test_what_can_never_work_is_refused_with_its_remedy(
    url: str, words: str, face: type[Client | AsyncClient]
) -> None:
    with pytest.raises(ConfigError, match=words):
        face(url)


@pytest.mark.parametrize("login", NO_TEXTS)
@pytest.mark.parametrize("scheme", sorted(BUILTIN.keys() - FILES))
def test_a_login_that_cannot_be_sent_to_a_server_is_refused(scheme: str, login: str) -> None:
    with pytest.raises(ConfigError, match="the login of this URL"):
        find(f"{scheme}://u:{login}@h/0")


def test_the_key_of_a_certificate_is_opened_by_its_password_alone(
    certificate: Certificate, tmp_path: Path
) -> None:
    # Given an encrypted key: without a password OpenSSL would ask for one on the terminal
    locked = tmp_path / "key.pem"
    command = [need("openssl"), "pkey", "-in", certificate.key, "-aes256"]
    subprocess.run([*command, "-passout", "pass:sesame", "-out", locked], check=True)
    files = f"ssl_certfile={certificate.certificate}&ssl_keyfile={locked}"
    for password in ("", "&ssl_password=wrong"):
        with pytest.raises(ConfigError, match=r"option ssl_certfile: .*password"):
            Client(f"rediss://h/0?{files}{password}")
    # Then the right password opens it
    assert Client(f"rediss://h/0?{files}&ssl_password=sesame").url.startswith("rediss://h")
    plain = f"certfile={certificate.certificate}&keyfile={locked}&keyfile_password=sesame"
    assert Client(f"zookeeper://h?{plain}").url == "zookeeper://h"
    with pytest.raises(ConfigError, match=r"option ssl_cert: .*password"):
        Client(
            f"mysql://h/db?ssl_mode=required&ssl_cert={certificate.certificate}&ssl_key={locked}"
        )
