# SPDX-License-Identifier: Apache-2.0
"""
Topics without disks, as Inkless has them (``diskless.enable``): nothing is marked, deleted or copied under their names.

Their brokers answer ListOffsets with a beginning that is not that of the log, and keep records in objects of their own, so
none of this package's rules about what is still in use holds for them. A topic that is gone tells no setting any more:
therefore the id of one is left alone, too, while a topic without disks has its name.
"""

from __future__ import annotations

from typing import Final

from airflow_provider_rlmm.core.base.quoting import in_quotes

WITHOUT_A_BEGINNING: Final = (
    "where the log of such a topic begins its brokers do not say, and it cannot be told here which objects are its own"
)

DISKLESS_ADVICE: Final = (
    "nothing by this package, which does not work on such topics; where it is none, give the principal DESCRIBE_CONFIGS on "
    "it"
)


def why_diskless(name: str, shown_by: str) -> str:
    """
    Say why nothing is done under a name.

    :param name: of a topic without disks.
    :param shown_by: what shows it, in words.
    """
    return f"topic {in_quotes(name)} of the cluster is diskless ({shown_by}): {WITHOUT_A_BEGINNING}"
