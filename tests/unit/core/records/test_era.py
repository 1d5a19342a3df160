# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from airflow_provider_rlmm.core.base.errors import EventLogAccessError
from airflow_provider_rlmm.core.records.era import Era, LogEra, not_known
from airflow_provider_rlmm.core.records.told_era import EraName, ToldEra


@pytest.mark.parametrize("era", Era)
def test_documents_name_every_era(era: Era) -> None:
    told = LogEra(era, "seen").told()
    assert told == ToldEra(EraName(era.name.lower()), "seen")
    assert str(told) == str(LogEra(era, "seen")) == f"{era.name.lower()}: seen"
    assert LogEra.of(told) == LogEra(era, "seen")
    assert told.is_plain == (era is Era.PLAIN)


def test_what_brokers_answer_at_length_is_cut_in_a_document() -> None:
    told = not_known(EventLogAccessError("no " * 10_000)).told()
    assert told.why.startswith("whether it may be compacted is not known: no no")
    assert len(told.why) == 1_000
