# SPDX-License-Identifier: Apache-2.0
"""What the cleaner asks before it deletes, and the marker before it marks."""

from __future__ import annotations

from airflow_provider_rlmm.core.world.questions import Question, Writer

CLEANER = Writer(
    "cleaner",
    asks={
        Question.SWITCH: "before the first event, and before every batch",
        Question.HOLD: "before every batch",
        Question.TIME_OF_DAY: "before every batch",
        Question.PACE: "objects in a second, between batches",
        Question.CLUSTER: "at every look: before STARTED, before objects go, before FINISHED",
        Question.ABSENCE: "by the full rule, at every look",
        Question.DISKLESS: "at every look, where a name that is gone came back",
        Question.ARCHIVE: "where one is demanded, before every batch",
        Question.ROOT: "proven before the first event, the same one around every listing and deletion",
    },
    does_not_ask={
        Question.LEADER: "not: the topic is gone",
    },
)

MARKER = Writer(
    "marker",
    asks={
        Question.SWITCH: "at its start",
        Question.HOLD: "before the markers of a metadata partition",
        Question.CLUSTER: "at every look",
        Question.ABSENCE: "one look, which is the first observation",
        Question.DISKLESS: "at every look, where a name that is gone came back",
        Question.ROOT: "only whether living copies lie where no run looks",
    },
    does_not_ask={
        Question.TIME_OF_DAY: "not",
        Question.PACE: "has none",
        Question.ARCHIVE: "not",
        Question.LEADER: "not",
    },
)
