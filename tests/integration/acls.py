# SPDX-License-Identifier: Apache-2.0
"""What a principal of a local broker may do."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from dev.broker import LocalKafka, await_condition
from tests.integration.kafka_topics import TIMEOUT_S

Acl = tuple[ResourceType, str, AclOperation]
"""Kind and name of a resource (``*`` for all), and what may be done with it."""

_EVERY = AclBindingFilter(
    ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
)


def allow_exactly(kafka: LocalKafka, user: str, acls: Collection[Acl]) -> None:
    """
    Let a user do this and nothing else; take from all others what they might do.

    :param kafka: a broker with an authorizer.
    :param user: one of its users.
    :param acls: what is allowed.
    """
    allow_each(kafka, {user: acls})


def allow_each(kafka: LocalKafka, acls: Mapping[str, Collection[Acl]]) -> None:
    """
    Let each of some users do what is theirs and nothing else; take from all others what they might do.

    :param kafka: a broker with an authorizer.
    :param acls: user → what is allowed.
    """
    admin = AdminClient(kafka.client_config())
    for future in admin.delete_acls([_EVERY]).values():
        future.result(TIMEOUT_S)
    wanted = {(f"User:{user}", *acl) for user, theirs in acls.items() for acl in theirs}
    bindings = [
        AclBinding(kind, name, ResourcePatternType.LITERAL, user, "*", operation, AclPermissionType.ALLOW)
        for user, kind, name, operation in wanted
    ]
    # librdkafka takes no empty list.
    for future in admin.create_acls(bindings).values() if bindings else ():
        future.result(TIMEOUT_S)

    def granted() -> set[tuple[str, ResourceType, str, AclOperation]]:
        found = admin.describe_acls(_EVERY).result(TIMEOUT_S)
        return {(b.principal, b.restype, b.name, b.operation) for b in found}

    # The controller has them; the broker, which decides, learns of them a moment later.
    await_condition(lambda: granted() == wanted, "the ACLs", TIMEOUT_S)
