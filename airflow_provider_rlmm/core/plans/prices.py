# SPDX-License-Identifier: Apache-2.0
"""
What storing costs, by storage class: declared in the connection, and reckoned with whole millionths of a unit of money.

No listing that this package makes tells the storage class of an object, so a person names it. Where no price is known there
is no cost: ``None``, never 0. Pure: nothing is asked here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from airflow_provider_rlmm.core.base import strict_json as strict
from airflow_provider_rlmm.core.base.documents import Text
from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.base.quoting import human_bytes, in_quotes, list_in_quotes
from airflow_provider_rlmm.core.base.values import refused
from airflow_provider_rlmm.core.plans.storage_classes import KNOWN_CLASSES, check_name

MICROS: Final = 1_000_000
"""Parts of a unit of money in which costs are reckoned."""

GIGABYTE: Final = 2**30
"""Bytes of the gigabyte that stores charge for."""

MAX_PRICE: Final = 1_000_000
"""The highest price, in units of money."""

DECIMALS: Final = 6
"""Of a price; what is smaller than a millionth cannot be reckoned with."""

LIST_PAGE: Final = 1_000
"""Objects of a page of a listing, at most, where the storage class does not say whose store it is."""

EXAMPLE: Final = '{"STANDARD": {"per_gb_month": "0.023"}}'
"""The shortest declaration of prices."""

MIN_DAYS: Final = "min_days"
MIN_OBJECT_BYTES: Final = "min_object_bytes"
_READS: Final = ("per_1000_reads", "per_gb_read")
_PRICES: Final = ("per_gb_month", "per_1000_requests", *_READS)
_MINIMUMS: Final = {MIN_DAYS: 3_650, MIN_OBJECT_BYTES: 2**30}
# A template renders a small number as 1e-05.
_SPELLED: Final = re.compile(r"[0-9]{1,7}(\.[0-9]{1,19})?(e-?[0-9]{1,2})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class StorageClass:
    """
    In which storage class objects are reckoned, as a person has named it.

    :param name: as the store calls it.
    :param min_days: for how many days an object is paid for at least, 0 for no minimum, ``None`` where none is set.
    :param min_object_bytes: as how large an object is paid for at least, bytes.
    :param micros_per_1000_requests: what 1,000 requests that list cost, in millionths; ``None`` where none is set.
    """

    name: Text
    min_days: int | None = None
    min_object_bytes: int = 0
    micros_per_1000_requests: int | None = None


@dataclass(frozen=True, slots=True)
class StoragePrice:
    """
    By which price storage is reckoned.

    :param micros_per_gb_month: what storing 2^30 bytes costs in a month, in millionths of a unit of money.
    :param storage_class: of the objects, ``None`` where none is named: the price holds for any then.
    """

    micros_per_gb_month: int
    storage_class: StorageClass | None = None

    def paid_bytes(self, stored_bytes: int, objects: int = 0) -> int:
        """
        Return as how many bytes objects are paid for, at least: small ones are paid for as larger ones.

        :param stored_bytes: their sizes, summed.
        :param objects: how many they are, as far as that is known.
        """
        smallest = self.storage_class.min_object_bytes if self.storage_class else 0
        return max(stored_bytes, objects * smallest) if objects else stored_bytes

    def month(self, stored_bytes: int, objects: int = 0) -> int:
        """
        Return what objects cost in a month, in millionths, rounded to the nearest.

        :param stored_bytes: their sizes, summed; negative for what is saved less.
        :param objects: how many they are, as far as that is known.
        """
        return (self.paid_bytes(stored_bytes, objects) * self.micros_per_gb_month + GIGABYTE // 2) // GIGABYTE

    def listing(self, objects: int) -> int | None:
        """
        Return what one listing of objects costs at least, in millionths; ``None`` where it is not set what requests cost.

        :param objects: how many were listed.
        """
        if self.storage_class is None or self.storage_class.micros_per_1000_requests is None:
            return None
        known = KNOWN_CLASSES.get(self.storage_class.name)
        requests = max(1, -(-objects // (known.list_page if known else LIST_PAGE)))
        return (requests * self.storage_class.micros_per_1000_requests + 500) // 1000

    @property
    def in_words(self) -> str:
        """By which price, as a sentence without a full stop."""
        price = f"{spelled(self.micros_per_gb_month)} for 2^30 bytes in a month"
        if self.storage_class is None:
            return f"reckoned at {price} for every storage class, as no storage_class is named"
        smallest = self.storage_class.min_object_bytes
        small = f"; smaller objects than {human_bytes(smallest)} are paid for as such, so it is at least what is told"
        named = f"reckoned as {self.storage_class.name}, the storage class that the connection names"
        return f"{named}, at {price}{small if smallest else ''}"


@dataclass(frozen=True, slots=True)
class ClassPrice:
    """What the connection says of a storage class; ``None`` where it says nothing."""

    micros_per_gb_month: int
    micros_per_1000_requests: int | None
    min_days: int | None
    min_object_bytes: int | None
    micros_per_1000_reads: int | None = None
    micros_per_gb_read: int | None = None


@dataclass(frozen=True, slots=True)
class ReadPrice:
    """
    What reading objects costs.

    :param micros_per_1000_reads: what 1,000 requests that read cost, in millionths of a unit of money.
    :param micros_per_gb_read: what 2^30 bytes cost that are retrieved and brought here, in millionths.
    """

    micros_per_1000_reads: int = 0
    micros_per_gb_read: int = 0

    def of(self, requests: int, read_bytes: int) -> int:
        """
        Return what reads cost, in millionths, rounded to the nearest.

        :param requests: how many there are.
        :param read_bytes: what they bring.
        """
        by_request = (requests * self.micros_per_1000_reads + 500) // 1000
        return by_request + (read_bytes * self.micros_per_gb_read + GIGABYTE // 2) // GIGABYTE


def read_price(prices: str | None, storage_class: str | None) -> ReadPrice | None:
    """
    Return what reading costs, as the connection says of the class; ``None`` where it says nothing of it.

    :param prices: of the connection, as :func:`read_prices` reads it; ``None`` where it says none.
    :param storage_class: that the connection names; ``None``: the one that has a price, if it is the only one.
    :raises ConfigurationError: if prices cannot be read.
    """
    named = {} if prices is None else read_prices("prices", prices)
    name = storage_class or (next(iter(named)) if len(named) == 1 else None)
    said = named.get(name) if name is not None else None
    if said is None or (said.micros_per_1000_reads is None and said.micros_per_gb_read is None):
        return None
    return ReadPrice(said.micros_per_1000_reads or 0, said.micros_per_gb_read or 0)


def read_prices(name: str, value: object) -> Mapping[str, ClassPrice]:
    """
    Read the prices of storage classes.

    :param name: of the setting, for the error.
    :param value: a JSON object: storage class → ``per_gb_month`` and, if wanted, ``per_1000_requests``, ``per_1000_reads``,
        ``per_gb_read``, ``min_days`` and ``min_object_bytes``.
    :raises ConfigurationError: naming what is wrong.
    """
    allowed = f"a JSON object such as {EXAMPLE}"
    try:
        found = strict.parse_object(str(value))
    except ValueError:
        raise refused(name, value, allowed) from None
    if not found:
        raise refused(name, value, allowed)
    for storage_class in found:
        check_name(name, storage_class)
    return {storage_class: _class_price(f"{name}.{storage_class}", said) for storage_class, said in found.items()}


def _class_price(name: str, said: Any) -> ClassPrice:
    known = (*_PRICES, *_MINIMUMS)
    if not isinstance(said, dict) or "per_gb_month" not in said:
        raise refused(name, said, 'an object with per_gb_month, such as {"per_gb_month": "0.0125"}')
    if unknown := said.keys() - set(known):
        raise ConfigurationError(f"{name} has unknown fields {list_in_quotes(unknown)}; known are {list(known)}")
    for minimum, most in _MINIMUMS.items():
        whole = said.get(minimum)
        if whole is not None and (type(whole) is not int or not 0 <= whole <= most):
            raise refused(f"{name}.{minimum}", whole, f"an integer from 0 to {most}")
    requests = said.get("per_1000_requests")
    return ClassPrice(
        price_micros(f"{name}.per_gb_month", said["per_gb_month"]),
        None if requests is None else price_micros(f"{name}.per_1000_requests", requests),
        said.get(MIN_DAYS),
        said.get(MIN_OBJECT_BYTES),
        *(None if said.get(reads) is None else price_micros(f"{name}.{reads}", said[reads]) for reads in _READS),
    )


def price_micros(name: str, value: object) -> int:
    """
    Return a price in millionths.

    :param name: of the setting, for the error.
    :param value: a number or the text of one.
    :raises ConfigurationError: if it is no number from 0 to :data:`MAX_PRICE` with at most :data:`DECIMALS` decimals.
    """
    # The shortest text of a float is what a person has written.
    is_number = isinstance(value, str | int | float) and not isinstance(value, bool)
    text = str(value).strip() if is_number else ""
    number = Decimal(text) if _SPELLED.fullmatch(text) else None
    if number is None or number > MAX_PRICE or number * MICROS % 1:
        raise refused(name, value, f"a number from 0 to {MAX_PRICE} with at most {DECIMALS} decimals")
    return int(number * MICROS)


def storage_price(
    prices: str | None, storage_class: str | None, *, of_run: int | None = None, otherwise: int | None = None
) -> StoragePrice | None:
    """
    Return by which price storage is reckoned: what a run names counts first, then what the connection says of the class.

    :param prices: of the connection, as :func:`read_prices` reads it; ``None`` where it says none.
    :param storage_class: that the connection names; ``None``: the one that has a price, if it is the only one.
    :param of_run: what storing 2^30 bytes costs in a month by what this run was told, in millionths.
    :param otherwise: the same for classes without a price of their own, in millionths.
    :return: ``None`` where no price is set.
    :raises ConfigurationError: if prices cannot be read.
    """
    named = {} if prices is None else read_prices("prices", prices)
    name = storage_class or (next(iter(named)) if len(named) == 1 else None)
    said = named.get(name) if name is not None else None
    own = said.micros_per_gb_month if said else None
    micros = next((price for price in (of_run, own, otherwise) if price is not None), None)
    if micros is None:
        return None
    return StoragePrice(micros, None if name is None else _storage_class(name, said))


def _storage_class(name: str, said: ClassPrice | None) -> StorageClass:
    """Return what is known of a storage class; what the connection says of it counts first."""
    known = KNOWN_CLASSES.get(name)
    days, smallest = (known.min_days, known.min_object_bytes) if known else (None, 0)
    if said is None:
        return StorageClass(name, days, smallest)
    return StorageClass(
        name,
        days if said.min_days is None else said.min_days,
        smallest if said.min_object_bytes is None else said.min_object_bytes,
        said.micros_per_1000_requests,
    )


def check_prices(prices: str | None, storage_class: str | None) -> None:
    """
    Refuse prices of which it is not clear which counts.

    :param prices: of the connection.
    :param storage_class: that it names.
    :raises ConfigurationError: naming the field.
    """
    if storage_class is not None:
        check_name("storage_class", storage_class)
    named = {} if prices is None else read_prices("prices", prices)
    if len(named) > 1 and storage_class is None:
        raise ConfigurationError(
            f"prices are said of {list_in_quotes(named)}, and no listing tells which of them an object has: name it in "
            "storage_class"
        )


def no_price(how: str, storage_class: str | None = None) -> str:
    """
    Return the sentence that says why no cost is told, and how to have one.

    :param how: what to do, with ``{prices}`` where an example of prices stands.
    :param storage_class: that is named and has no price, ``None`` where none is named.
    """
    what = "no price is set" if storage_class is None else f"storage class {in_quotes(storage_class)} has no price"
    example = EXAMPLE.replace("STANDARD", storage_class or "STANDARD")
    return f"No cost is told, as {what}: {how.format(prices=example)}."


def money(micros: int) -> str:
    """
    Return an amount of money for people, with two decimals; what is less than a hundredth is not made 0.

    :param micros: millionths.
    """
    if 0 < abs(micros) < MICROS // 100:
        return "< 0.01" if micros > 0 else "> -0.01"
    return f"{Decimal(micros) / MICROS:,.2f}"


def spelled(micros: int) -> str:
    """
    Return a price as it was written, such as ``0.0125``.

    :param micros: millionths.
    """
    return f"{(Decimal(micros) / MICROS).normalize():f}"
