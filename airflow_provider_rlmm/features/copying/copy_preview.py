# SPDX-License-Identifier: Apache-2.0
"""What a copier would copy of a user partition now."""

from __future__ import annotations

from dataclasses import replace
from typing import Final
from uuid import UUID

from airflow_provider_rlmm.features.copying.announcing import announcement
from airflow_provider_rlmm.features.copying.copy_context import CopyContext
from airflow_provider_rlmm.features.copying.copy_source import CopySource
from airflow_provider_rlmm.features.copying.followed_partition import FollowedPartition
from airflow_provider_rlmm.features.copying.rules import Candidates

_NO_ID: Final = UUID(int=0)
"""Stands for the id of a copy that is not made: all ids are as long in a key."""


def preview(context: CopyContext, source: CopySource) -> Candidates:
    """
    Return what would be copied now; whether it is the leader's lineage is looked at by the copy.

    :param context: what a copier works with.
    :param source: the log directory.
    :raises CopyRefusedError: if nothing of the user partition may be copied; the message says why.
    :raises TopicInDoubtError: if the metadata topic cannot tell what is copied already.
    :raises EventLogError: if metadata topic or leader cannot be asked.
    :raises LogDirectoryError: if the directory cannot be used.
    """
    context.require_layout(source.topic_id_partition)
    situation = FollowedPartition(context, source).first_look()
    found = situation.candidates()
    for segment in found.segments[: context.limits.max_segments]:
        context.require_custom_metadata(announcement(source.topic_id_partition, segment, _NO_ID, context.clock()))
    return replace(found, hole=situation.hole(found.segments[: context.limits.max_segments]))
