# SPDX-License-Identifier: Apache-2.0
"""
What it costs to delete before a storage class's minimum duration is over.

A store asks for the days that are left: an object of a class of 30 days that goes after 21 is paid for 9 days more
(https://learn.microsoft.com/azure/storage/blobs/access-tiers-overview, https://cloud.google.com/storage/pricing#early-delete).
Days that have begun count whole, a month has 30 of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from airflow_provider_rlmm.core.base.agreement import agreeing, number_of
from airflow_provider_rlmm.core.base.clock import DAY_MS
from airflow_provider_rlmm.core.base.quoting import human_bytes
from airflow_provider_rlmm.core.plans.prices import GIGABYTE, StorageClass, StoragePrice, money

MONTH_DAYS: Final = 30
"""Days of a month, by which a price of a month becomes one of a day."""


@dataclass(frozen=True, slots=True)
class EarlyDeletion:
    """
    How much of what goes would go before its time, and what that costs.

    :param count: objects that are too young; segments, where only the log was read.
    :param bytes: their sizes, summed.
    :param micros: what their days that are left cost, in millionths of a unit of money.
    :param unknown: those of unknown age; no part of the others.
    :param unknown_bytes: their sizes, summed.
    """

    count: int
    bytes: int
    micros: int
    unknown: int
    unknown_bytes: int

    def in_words(self, storage_class: StorageClass, what: str) -> str:
        """
        Return what this costs, as a sentence.

        :param storage_class: by which it was reckoned.
        :param what: is counted: object or segment.
        """
        days = storage_class.min_days or 0
        minimum = f"before the {number_of(days, 'day')} of {storage_class.name} {agreeing(days, 'is', 'are')} over"
        told = []
        if self.count:
            size = human_bytes(self.bytes)
            go = agreeing(self.count, "goes", "go")
            told.append(f"{number_of(self.count, what)}, {size}, {go} {minimum}: that costs {money(self.micros)}.")
        if self.unknown:
            size = human_bytes(self.unknown_bytes)
            go, their = agreeing(self.unknown, "goes", "go"), agreeing(self.unknown, "its", "their")
            told.append(
                f"Cannot tell whether {number_of(self.unknown, what)}, {size}, {go} {minimum}: {their} age is not known."
            )
        return " ".join(told) or f"Nothing goes {minimum}."


def early_deletion(
    price: StoragePrice | None, sizes: Iterable[tuple[int, int | None]], now_ms: int
) -> EarlyDeletion | None:
    """
    Reckon what it costs to delete something now.

    :param price: by which it is reckoned, ``None`` where none is set.
    :param sizes: of each, its bytes and when it was uploaded, ms since the epoch, ``None`` where it is not known.
    :param now_ms: ms since the epoch.
    :return: ``None`` where it cannot be told whether it costs anything: no price is known, or no minimum duration.
    """
    storage_class = price.storage_class if price is not None else None
    if price is None or storage_class is None or storage_class.min_days is None:
        return None
    minimum_ms = storage_class.min_days * DAY_MS
    count = early_bytes = byte_days = unknown = unknown_bytes = 0
    for size, uploaded_ms in sizes:
        if not minimum_ms:
            break
        if uploaded_ms is None or uploaded_ms < 0:
            unknown, unknown_bytes = unknown + 1, unknown_bytes + size
        elif (left_ms := uploaded_ms + minimum_ms - now_ms) > 0:
            # What was uploaded after now by this clock is not older than nothing.
            days = min(-(-left_ms // DAY_MS), storage_class.min_days)
            count, early_bytes = count + 1, early_bytes + size
            byte_days += price.paid_bytes(size, 1) * days
    whole = GIGABYTE * MONTH_DAYS
    micros = (byte_days * price.micros_per_gb_month + whole // 2) // whole
    return EarlyDeletion(count, early_bytes, micros, unknown, unknown_bytes)


def early_in_words(price: StoragePrice | None, early: EarlyDeletion | None, what: str) -> str:
    """
    Return what a deletion costs because it comes early, or why that cannot be told.

    :param price: by which costs are reckoned, ``None`` where none is set.
    :param early: what :func:`early_deletion` returned.
    :param what: is counted: object or segment.
    :return: empty where there is nothing to say: without a price, and in a class without a minimum.
    """
    if price is None:
        return ""
    if price.storage_class is None:
        return "Cannot tell whether it costs to delete early: the connection names no storage_class."
    if price.storage_class.min_days is None or early is None:
        name = price.storage_class.name
        return f"Cannot tell whether it costs to delete early: prices of the connection say no min_days of {name}."
    return early.in_words(price.storage_class, what) if price.storage_class.min_days else ""
