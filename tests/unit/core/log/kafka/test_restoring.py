# SPDX-License-Identifier: Apache-2.0
"""The delivery reports of restored records: each must have got the offset that follows."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError

from airflow_provider_rlmm.core.base.errors import RestoreError
from airflow_provider_rlmm.core.log.kafka.client_watch import ClientWatch
from airflow_provider_rlmm.core.log.kafka.config import KafkaClientConfig
from airflow_provider_rlmm.core.log.kafka.restoring import _Reports


class Delivered:
    """A message as a delivery report has it."""

    def __init__(self, offset: int) -> None:
        self._offset = offset

    def offset(self) -> int:
        return self._offset


def reports_of(*given: tuple[KafkaError | None, int]) -> _Reports:
    watch = ClientWatch(KafkaClientConfig({"bootstrap.servers": "broker:9092"}))
    reports = _Reports("restored-1", 7, watch)
    for error, offset in given:
        message: Any = Delivered(offset)
        reports(error, message)
    return reports


def test_offsets_that_follow_each_other_are_good() -> None:
    reports = reports_of((None, 7), (None, 8), (None, 9))
    reports.require_good()
    assert reports.count == 3


@pytest.mark.parametrize("offset", [6, 7, 9, -1])
def test_another_offset_says_that_somebody_else_writes(offset: int) -> None:
    reports = reports_of((None, 7), (None, offset), (None, 8))
    with pytest.raises(
        RestoreError, match=rf"record 1 of those sent has got offset {offset} and not 8: another producer"
    ):
        reports.require_good()
    assert reports.count == 1


def test_a_record_that_was_refused_is_named_whatever_comes_after_it() -> None:
    refused = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)
    reports = reports_of((None, 7), (refused, -1), (None, 8))
    with pytest.raises(
        RestoreError,
        match=r"restored-1: record 1 of those sent was not written: .*; run the same restore again",
    ):
        reports.require_good()
