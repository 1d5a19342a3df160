# SPDX-License-Identifier: Apache-2.0
"""
Secrets of Kafka clients and object stores, and texts without them.

librdkafka's and Java's messages may repeat a property, whole or in part: the password of a JAAS entry alone, the client
secret of an OAuth configuration, percent-encoded in a URL. So the parts are known too, each in the forms in which it may
come back.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import quote, unquote

HIDDEN = "***"

# What is not here is hidden: a list of secret names would miss the next new one.
_PUBLIC = re.compile(
    r"bootstrap\.servers|metadata\.broker\.list|client\.(id|rack|dns\.lookup)|group\..*|security\.protocol"
    r"|sasl\.(mechanisms?|username|oauthbearer\.method|oauthbearer\.scope|kerberos\.(service\.name|principal|keytab))"
    r"|ssl\.(.*\.location|.*\.type|.*algorithm|protocol|provider|cipher\.suites|curves\.list|sigalgs\.list)"
    r"|.*\.url|.*\.(ms|bytes|messages|kbytes|interval|size)|acks|compression\..*|enable\..*|debug|log_level|isolation\.level"
    r"|auto\.offset\.reset|partition\.assignment\.strategy|partitioner|socket\..*|broker\..*|allow\..*|builtin\.features"
)
_SURELY_SECRET = re.compile(r".*(pass|secret|token|key|pem|cred|auth|jaas|config|assertion|user\.info|cert)")
# A word that is none of these may be a secret that was put into the wrong field.
_WORDS = {
    "security.protocol": re.compile(r"(?i)(sasl_)?(plaintext|ssl)"),
    **dict.fromkeys(
        ("sasl.mechanism", "sasl.mechanisms"), re.compile(r"(?i)plain|gssapi|oauthbearer|scram-sha-(256|512)")
    ),
}
_HAS_PARTS = re.compile(r".*(jaas.*|\.config)")
# Nothing here gives back what it took, and a name begins where a word does: the time grows with the text, and not with its
# square.
_PART = r"""(?<![\w.-])(?P<name>[\w.-]++)["']?+\s*+[=:]\s*+(?P<value>"(?:[^"\\]|\\.)*+"|'(?:[^'\\]|\\.)*+'|UNQUOTED)"""
# Some formats end a value with a comma or an ampersand, in others it belongs to it.
_PARTS = [re.compile(_PART.replace("UNQUOTED", end), re.DOTALL) for end in (r"[^\s;]++", r"[^\s;,&}\"']++")]
# Java's StreamTokenizer, which reads JAAS entries.
_ESCAPE = re.compile(r"\\([0-3][0-7]{2}|[0-7]{1,2}|.)", re.DOTALL)
_ESCAPED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
# Of a JAAS entry or an OAuth configuration.
_PUBLIC_PARTS = frozenset(
    {
        "clientid", "client_id", "debug", "donotprompt", "isinitiator", "keytab", "lifeseconds", "principal",
        "principalclaimname", "refreshkrb5config", "renewtgt", "scope", "scopeclaimname", "servicename", "storekey",
        "ticketcache", "tokenauth", "usekeytab", "username", "useticketcache",
    }
)  # fmt: skip
_NO_SECRETS = frozenset({"", "true", "false", "none", "null"})
_WHOLE_WORD_BELOW = 4
_SHORT_WORD = 5
_PEM_LINE = re.compile(r"[A-Za-z0-9+/=]{16,}")
_USER_INFO = re.compile(r"://([^/\s@]+)@")
_QUERY_VALUE = re.compile(r"[?&][^=?&#\s]++=([^&#\s]++)")
_ADDRESS = re.compile(
    r"(?<![\w+.-])(?P<scheme>[A-Za-z][\w+.-]*+://)(?:[^/\s?#@\"'<>]*+@)?(?P<host>[\w.-]*+)[^\s\"'<>]*+"
)
_OF_A_STORE = re.compile(
    r"(AWS|AZURE|GOOGLE)_\w*(SECRET|TOKEN|KEY|SAS|PASSWORD)\w*(?<!_FILE|_PATH|_NAME)(?<!_ID)(?<!_UR[IL])"
)
_SHORTEST_OF_A_STORE = 6
# What a store says of a session that is over, and of a signature that does not fit: it repeats the token.
_REPEATED = re.compile(r"<(Token-\d+|StringToSign\w*|CanonicalRequest\w*)>.*?(</\1>|\Z)", re.DOTALL)


def secrets_of(properties: Mapping[str, Any]) -> frozenset[str]:
    """
    Return what of client properties must appear in no text: the values, and the secret parts of those that have parts.

    :param properties: of librdkafka's or Java's clients. Addresses, mechanisms, user names, file names, sizes and times are
        no secrets, but a login or a query within a URL is.
    """
    found: set[str] = set()
    for name, value in properties.items():
        if isinstance(value, str):
            found.update(_secrets_in(name.lower(), value))
    forms = {form for secret in found for form in _forms(secret)}
    return frozenset(form for form in forms if form.strip().lower() not in _NO_SECRETS)


def without_secrets(text: str, secrets: Iterable[str]) -> str:
    """
    Return a text with three asterisks in the place of each secret.

    :param text: what another program wrote.
    :param secrets: from :func:`secrets_of`; those of less than four characters are hidden where they stand alone.
    """
    hidden = _pattern(frozenset(secrets))
    return hidden.sub(HIDDEN, text) if hidden is not None else text


def without_stores_secrets(text: str, secrets: Iterable[str] = ()) -> str:
    """
    Return what an object store, or its client, says without secrets: also those of the environment, by which a store is
    opened that is given no credentials, and what a store repeats of a request that it refuses.

    :param text: what it says.
    :param secrets: those that are known besides.
    """
    values = (value for name, value in os.environ.items() if _OF_A_STORE.fullmatch(name))
    hidden = {*secrets, *(value for value in values if len(value) >= _SHORTEST_OF_A_STORE)}
    # The longest first: one may be part of another.
    for secret in sorted(hidden, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return _REPEATED.sub(rf"<\1>{HIDDEN}</\1>", text)


def without_addresses(text: str) -> str:
    """
    Return a text in which of each URL only its scheme and its host are left: a token may be in any other part.

    :param text: what another program wrote.
    """
    return _ADDRESS.sub(rf"\g<scheme>\g<host>/{HIDDEN}", text)


@lru_cache(maxsize=16)
def _pattern(secrets: frozenset[str]) -> re.Pattern[str] | None:
    # The longest first: one may begin with another.
    ordered = sorted(secrets, key=lambda secret: (-len(secret), secret))
    parts = [
        re.escape(secret) if len(secret) >= _WHOLE_WORD_BELOW else rf"(?<!\w){re.escape(secret)}(?!\w)"
        for secret in ordered
    ]
    return re.compile("|".join(parts)) if parts else None


def _secrets_in(name: str, value: str) -> Iterator[str]:
    if name in _WORDS and not _WORDS[name].fullmatch(value.strip()):
        yield from (value, value.strip())
    # A short word of an unknown property is rather a mode than a secret.
    if not _PUBLIC.fullmatch(name) and (_SURELY_SECRET.match(name) or len(value) > _SHORT_WORD):
        yield from (value, value.strip())
        yield from _PEM_LINE.findall(value) if "-----BEGIN" in value else ()
        if "user.info" in name:
            yield value.partition(":")[2]
    yield from _secrets_in_url(value)
    if _HAS_PARTS.fullmatch(name):
        yield from _secret_parts(value)


def _secrets_in_url(value: str) -> Iterator[str]:
    for login in _USER_INFO.findall(value) if "://" in value else ():
        yield login
        yield from (login.partition(":")[2], unquote(login.partition(":")[2]))
    for queried in _QUERY_VALUE.findall(value) if "://" in value else ():
        yield from (queried, unquote(queried))


def _secret_parts(value: str) -> Iterator[str]:
    for part in (found for parts in _PARTS for found in parts.finditer(value)):
        raw = part["value"]
        if part["name"].lower() not in _PUBLIC_PARTS:
            quoted = raw[0] in "\"'"
            yield from (raw[1:-1], _ESCAPE.sub(_unescaped, raw[1:-1])) if quoted else (raw,)


def _unescaped(escape: re.Match[str]) -> str:
    meant = escape[1]
    return chr(int(meant, 8)) if meant.isdigit() and meant < "8" else _ESCAPED.get(meant, meant)


def _forms(secret: str) -> Iterator[str]:
    """Return a secret as it is, and as it looks in a URL, in JSON and in Python's quotes."""
    yield from (secret, quote(secret, safe="", errors="surrogatepass"), quote(secret, errors="surrogatepass"))
    yield from (json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1])
    yield from (repr(secret)[1:-1], ascii(secret)[1:-1])
