# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from airflow_provider_rlmm.core.log.event_decoding import QuarantinedRecord
from airflow_provider_rlmm.library.metadata_store import Quarantine


def bad(*offsets: int) -> list[QuarantinedRecord]:
    return [QuarantinedRecord(0, offset, "MISROUTED", "elsewhere") for offset in offsets]


def test_a_batch_that_is_read_again_and_goes_further_counts_what_is_new_in_it() -> None:
    quarantine = Quarantine()
    quarantine.take(bad(3), 9, 10)
    quarantine.take(bad(3), 4, 8)
    quarantine.take(bad(3, 12), 13, 15)
    assert [record.offset for record in quarantine.records] == [3, 12]
    assert (quarantine.total, quarantine.misrouted, quarantine.judged) == (2, 2, 15)
