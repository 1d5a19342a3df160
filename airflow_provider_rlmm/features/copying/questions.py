# SPDX-License-Identifier: Apache-2.0
"""What the copier asks before it writes about a living topic."""

from __future__ import annotations

from airflow_provider_rlmm.core.world.questions import Question, Writer

COPIER = Writer(
    "copier",
    asks={
        Question.SWITCH: "at its start, before every segment and every chunk",
        Question.HOLD: "before every event",
        Question.PACE: "bytes in a second, within a segment",
        Question.CLUSTER: "disk, leader and connection are of the same one",
        Question.ABSENCE: "the topic must exist",
        Question.DISKLESS: "with what the leader says",
        Question.LEADER: "right before STARTED and right before FINISHED",
        Question.ROOT: "the one that brokers copy to now",
    },
    does_not_ask={
        Question.TIME_OF_DAY: "not",
        Question.ARCHIVE: "not",
    },
)
