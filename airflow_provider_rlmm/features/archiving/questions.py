# SPDX-License-Identifier: Apache-2.0
"""What a restore asks before it writes."""

from __future__ import annotations

from airflow_provider_rlmm.core.world.questions import Question, Writer

RESTORE = Writer(
    "restore",
    asks={
        Question.SWITCH: "at its start",
        Question.CLUSTER: "when it is opened, and at the end whether the topic is still the same",
        Question.ARCHIVE: "whole and undamaged, or taken by name as it is; all of it read before the first record",
    },
    does_not_ask={
        Question.HOLD: "not: it writes into a topic that a person made for it",
        Question.TIME_OF_DAY: "not",
        Question.PACE: "has none",
        Question.ABSENCE: "not",
        Question.DISKLESS: "not: it writes records as any producer does",
        Question.LEADER: "not",
        Question.ROOT: "not",
    },
)
