# SPDX-License-Identifier: Apache-2.0
"""The facet of a run in OpenLineage's events; importing this module needs OpenLineage's client."""

from __future__ import annotations

import attr
from openlineage.client.facet_v2 import RunFacet

SCHEMA_URL = "urn:airflow-provider-rlmm:facets:1-0-0:RemoteLogRunFacet"
"""Names the form of the facet, which ``docs/openlineage.md`` describes; it cannot be opened."""

PRODUCER = "urn:airflow-provider-rlmm"


@attr.define
class RemoteLogRunFacet(RunFacet):
    """
    What a task has done to remote log segments.

    :param connection: connection of type ``rlmm``, ``None`` where the task has none.
    :param dryRun: whether it changed nothing, ``None`` where the task has not said it (yet).
    :param counts: name → number, as the task returns them.
    """

    connection: str | None = attr.field(default=None)
    dryRun: bool | None = attr.field(default=None)  # noqa: N815  # as OpenLineage spells names
    counts: dict[str, int] = attr.field(factory=dict)
    _producer: str = attr.field(default=PRODUCER, kw_only=True)

    @staticmethod
    def _get_schema() -> str:
        return SCHEMA_URL
