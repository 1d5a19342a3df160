# SPDX-License-Identifier: Apache-2.0
"""A policy of IAM before an S3 server of this machine: what it does not allow is refused, and written down."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

from dev.s3_proxy import S3Proxy

ARN: Final = "arn:aws:s3:::"
_OF_BUCKETS: Final = {
    "versioning": "s3:GetBucketVersioning",
    "lifecycle": "s3:GetLifecycleConfiguration",
    "object-lock": "s3:GetBucketObjectLockConfiguration",
}


@dataclass(frozen=True)
class Asked:
    """What a request asks for: an action of IAM on a bucket or an object."""

    action: str
    resource: str

    @property
    def bucket(self) -> str:
        return self.resource.partition("/")[0]


def asked_by(method: str, path: str) -> Asked:
    """Return what a request in path style asks for; what is not known here is an action that no policy names."""
    parts = urlsplit(path)
    bucket, _, key = unquote(parts.path.removeprefix("/")).partition("/")
    query = parse_qs(parts.query, keep_blank_values=True)
    if key:
        objects = {"GET": "s3:GetObject", "HEAD": "s3:GetObject", "PUT": "s3:PutObject", "DELETE": "s3:DeleteObject"}
        return Asked(objects.get(method, f"{method} of an object"), f"{ARN}{bucket}/{key}")
    of_bucket = next((action for name, action in _OF_BUCKETS.items() if name in query), None)
    if method in ("GET", "HEAD"):
        return Asked(of_bucket or "s3:ListBucket", f"{ARN}{bucket}")
    return Asked("s3:DeleteObject" if "delete" in query else f"{method} of a bucket", f"{ARN}{bucket}/")


class Policy:
    """
    A policy that allows; it knows neither conditions nor denials, and refuses a document that has them.

    :param document: the policy, as JSON.
    """

    def __init__(self, document: str) -> None:
        said: dict[str, Any] = json.loads(document)
        assert said.keys() == {"Version", "Statement"}
        self._allowed: list[tuple[Sequence[str], Sequence[str]]] = []
        for statement in said["Statement"]:
            assert statement.keys() == {"Effect", "Action", "Resource"}
            assert statement["Effect"] == "Allow"
            self._allowed.append((_several(statement["Action"]), _several(statement["Resource"])))

    def allows(self, asked: Asked) -> bool:
        """Tell whether the client may do this."""
        return any(
            asked.action in actions and any(fnmatchcase(asked.resource, resource) for resource in resources)
            for actions, resources in self._allowed
        )


def _several(said: str | list[str]) -> Sequence[str]:
    return [said] if isinstance(said, str) else said


class PolicedS3(S3Proxy):
    """
    An S3 server to whose clients a policy applies.

    :param port: the server's, on 127.0.0.1.
    :ivar allows: decides; all is allowed at first.
    :ivar denied: what was refused.
    :ivar granted: what was not.
    """

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.allows: Callable[[Asked], bool] = lambda _: True
        self.denied: list[Asked] = []
        self.granted: list[Asked] = []

    def denies(self, method: str, path: str, status: int | None) -> bool:
        asked = asked_by(method, path)
        if status is None:
            allowed = self.allows(asked)
            (self.granted if allowed else self.denied).append(asked)
            return not allowed
        # Whoever may not list a bucket is not told which objects are not there.
        return status == 404 and not self.allows(Asked("s3:ListBucket", asked.bucket))
