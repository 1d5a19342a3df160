# SPDX-License-Identifier: Apache-2.0
"""What a cluster answers to a topic's name."""

from __future__ import annotations

from enum import Enum
from uuid import UUID


class NoTopic(Enum):
    """What a cluster answers to a name instead of a topic id."""

    UNKNOWN = "UNKNOWN_TOPIC_OR_PARTITION"
    """There is no topic of this name; only a principal that may describe it is told so."""

    DENIED = "TOPIC_AUTHORIZATION_FAILED"
    """A principal without DESCRIBE gets this for every name, whether or not the topic exists."""


TopicAnswer = UUID | NoTopic
"""The id of the topic that has the name, or why there is none."""
