# SPDX-License-Identifier: Apache-2.0
"""A session over a small cluster, in place of the one that commands open."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from airflow_provider_rlmm.core.world.hold import Hold
from airflow_provider_rlmm.core.world.only import ALL_TOPICS
from tests.builders import Cluster


def opener(cluster: Cluster, folder: Path, settings: Any) -> Callable[..., AbstractContextManager[Any]]:
    """
    Return what takes the place of ``open_session``.

    :param cluster: behind the command.
    :param folder: the work folder.
    :param settings: of the connection, as far as the command looks at them.
    """

    @contextmanager
    def opened(*_: Any, **__: Any) -> Iterator[Any]:
        @contextmanager
        def topic(**_: Any) -> Iterator[Any]:
            yield cluster.topic()

        yield SimpleNamespace(
            access=SimpleNamespace(get_connection_settings=lambda: settings),
            log=cluster.log,
            topic=topic,
            clock=lambda: cluster.now_ms,
            hold=lambda: Hold(),
            only=ALL_TOPICS,
            snapshots=SimpleNamespace(second=None),
            cluster_id="c",
            cluster_uri=str(folder / "c"),
        )

    return opened
