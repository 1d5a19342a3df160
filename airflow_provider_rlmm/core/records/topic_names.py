# SPDX-License-Identifier: Apache-2.0
"""Which names a topic can have."""

from __future__ import annotations

import re
from typing import Final

INTERNAL_TOPICS: Final = frozenset({"__consumer_offsets", "__share_group_state", "__transaction_state"})
"""Kafka's own topics (Kafka: ``Topic.INTERNAL_TOPICS``); they are compacted, so no tiered storage keeps them."""

_TOPIC_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def is_legal_topic_name(name: str) -> bool:
    """Tell whether Kafka would accept a topic name (Kafka: ``Topic.validate``)."""
    return name not in {".", ".."} and _TOPIC_NAME.fullmatch(name) is not None
