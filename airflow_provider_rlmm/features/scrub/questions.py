# SPDX-License-Identifier: Apache-2.0
"""What a scrub asks before it deletes."""

from __future__ import annotations

from airflow_provider_rlmm.core.world.questions import Question, Writer

SCRUB = Writer(
    "scrub",
    asks={
        Question.SWITCH: "before every batch",
        Question.HOLD: "before every batch",
        Question.TIME_OF_DAY: "before every batch",
        Question.PACE: "objects in a second, between batches",
        Question.CLUSTER: "before every batch",
        Question.ABSENCE: "by the full rule for what no record names; not for finished segments",
        Question.DISKLESS: "before every batch, living and gone",
        Question.ROOT: "proven before the plan is applied, place by place",
    },
    does_not_ask={
        Question.ARCHIVE: "not",
        Question.LEADER: "not",
    },
)
