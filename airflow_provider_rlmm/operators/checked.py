# SPDX-License-Identifier: Apache-2.0
"""
When an operator's arguments are checked: what a DAG file says outright when that is parsed, all of them when the task runs.

What Airflow fills in later says nothing before: templates, XComs and all else that resolves itself, callables.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, TypeVar

from airflow.sdk import BaseOperator

from airflow_provider_rlmm.observability.lineage import Place, Told, Touched, lineage_of, told_by
from airflow_provider_rlmm.operators.arguments import FieldsReader, readers_of

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage
    from airflow.sdk.definitions.mappedoperator import OperatorPartial

_JINJA: Final = ("{{", "{%", "{#")

Read = TypeVar("Read")
"""What the arguments of an operator mean: a data class whose fields ``read_by`` of ``operators.arguments`` has made."""


class CheckedOperator(BaseOperator, Generic[Read]):
    """
    An operator that says once what reads each of its arguments, and what it touches.

    Its ``__init__`` ends with :meth:`check_literals`.
    """

    arguments: type[Read]
    """What the arguments mean: each field is an argument, and an attribute of the operator, too."""

    touched: ClassVar[Touched] = Touched(reads=(Place.TOPIC,))
    """What it reads and writes, for OpenLineage."""

    _told: Told = Told()

    def check_literals(self) -> None:
        """
        Refuse what is wrong before Airflow fills in the rest.

        :raises ConfigurationError: naming the argument, or a field of it.
        """
        _check_literals(type(self), {name: getattr(self, name) for name in readers_of(self.arguments)})

    def read_arguments(self) -> Read:
        """
        Return what the arguments mean, all of them, when the task runs.

        :raises ConfigurationError: naming the argument, or a field of it.
        """
        readers = readers_of(self.arguments)
        return self.arguments(**{name: read(name, getattr(self, name)) for name, read in readers.items()})

    def told(self, result: dict[str, Any]) -> dict[str, Any]:
        """
        Remember what the task returns, or would if it did not fail, for OpenLineage.

        :param result: what it returns.
        :return: the same.
        """
        self._told = told_by(result)
        return result

    def get_openlineage_facets_on_start(self) -> OperatorLineage[Any, Any]:
        """Return what Airflow's OpenLineage provider tells when the task begins."""
        return lineage_of(self.touched, getattr(self, "rlmm_conn_id", None), Told())

    def get_openlineage_facets_on_complete(self, task_instance: object) -> OperatorLineage[Any, Any]:
        """Return what Airflow's OpenLineage provider tells when the task has succeeded."""
        return lineage_of(self.touched, getattr(self, "rlmm_conn_id", None), self._told)

    def get_openlineage_facets_on_failure(self, task_instance: object) -> OperatorLineage[Any, Any]:
        """Return what Airflow's OpenLineage provider tells when the task has failed."""
        return self.get_openlineage_facets_on_complete(task_instance)

    @classmethod
    def partial(cls, **kwargs: Any) -> OperatorPartial:
        """
        Return what is to be mapped, see Airflow's own; of a mapped operator no ``__init__`` runs when the file is parsed.

        :param kwargs: arguments that all mapped tasks have.
        :raises ConfigurationError: as :meth:`check_literals`.
        """
        _check_literals(cls, {name: kwargs[name] for name in readers_of(cls.arguments) if name in kwargs})
        return super().partial(**kwargs)


def _check_literals(operator: type[CheckedOperator[Any]], given: Mapping[str, Any]) -> None:
    readers = readers_of(operator.arguments)
    for name, value in given.items():
        reader = readers[name]
        if name not in operator.template_fields:
            # Airflow fills in nothing there.
            reader(name, value)
        elif not (_comes_later(value) or callable(value)):
            known = _literals_of(value)
            whole = not isinstance(value, Collection) or len(known) == len(value)
            check = reader.check_some if isinstance(reader, FieldsReader) and not whole else reader
            check(name, known)


def _literals_of(value: Any) -> Any:
    """Leave out the elements, or the fields, that Airflow fills in later, in whole or in part."""
    if isinstance(value, dict):
        return {key: element for key, element in value.items() if not _holds_later(element)}
    if isinstance(value, list | tuple | set):
        kept = [element for element in value if not _holds_later(element)]
        return set(kept) if isinstance(value, set) else kept
    return value


def _holds_later(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_holds_later, value.values()))
    return any(map(_holds_later, value)) if isinstance(value, list | tuple | set) else _comes_later(value)


def _comes_later(value: Any) -> bool:
    # As Airflow's templater tells them.
    if isinstance(value, str):
        return any(mark in value for mark in _JINJA)
    return not isinstance(value, os.PathLike) and hasattr(value, "resolve")
