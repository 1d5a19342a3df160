# SPDX-License-Identifier: Apache-2.0
"""What ties a plan to the log that it was made from."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_rlmm.core.base.documents import Text


@dataclass(frozen=True, slots=True)
class ReadTail:
    """The last records of a metadata partition that a plan was made from: they must be there when it is applied."""

    begin: int  # offset of the first of them, inclusive
    end: int  # exclusive
    sha256: Text  # of all of them, lower-case hex
