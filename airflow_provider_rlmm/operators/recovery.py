# SPDX-License-Identifier: Apache-2.0
"""The operator of the way back: what lies in storage, without the cluster that wrote it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.sdk import Context
from airflow.sdk.bases.xcom import BaseXCom

from airflow_provider_rlmm.core.base.agreement import agreeing, number_of
from airflow_provider_rlmm.hooks.storage import RemoteStorageHook
from airflow_provider_rlmm.observability.lineage import Place, Touched
from airflow_provider_rlmm.operators import arguments as given
from airflow_provider_rlmm.operators.checked import CheckedOperator
from airflow_provider_rlmm.settings import work_uri

__all__ = ["RecoverRemoteLogOperator"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _RecoverArguments:
    output_uri: str = given.read_by(given.folder)
    topics: tuple[str, ...] = given.read_by(given.several_texts, ())
    cluster_id: str | None = given.read_by(given.text_or_none, None)
    manifests_per_second: int | None = given.read_by(partial(given.optional_integer, minimum=1), None)
    snapshots: tuple[str, ...] = given.read_by(given.folders, ())
    audits: tuple[str, ...] = given.read_by(given.folders, ())
    prove: bool = given.read_by(given.flag, False)
    allow_gaps: bool = given.read_by(given.flag, False)
    bytes_per_second: int | None = given.read_by(partial(given.optional_integer, minimum=1), None)
    fail_on_problems: bool = given.read_by(given.flag, True)
    rlmm_conn_id: str = given.read_by(given.text, "rlmm_default")


class RecoverRemoteLogOperator(CheckedOperator[_RecoverArguments]):
    """
    Make a catalogue of all copied segments in storage, as ``rlmm recover`` does: no broker is asked, and there it only reads.

    Snapshots, audit logs, surveys and scrubs in ``[rlmm] work_uri`` are asked first, and what lies in ``snapshots_uri`` and
    ``archive_uri`` of the connection: what they call deleted is left out and named. Another try goes on where the one before
    was interrupted. The task fails, after the catalogue is written, where something in it needs a person.

    :param output_uri: empty folder for the catalogue, outside of the storage.
    :param topics: names and ids in Kafka's form; none for all.
    :param cluster_id: of which cluster the segments are, where no stamp beside them says it; ``None`` for the connection's
        ``expected_cluster_id``.
    :param manifests_per_second: the most segments that are read in a second; ``None`` for as many as the store gives.
    :param snapshots: files of further snapshots of the metadata topic.
    :param audits: folders of further audit logs.
    :param prove: read all segments whole and prove each row by the contents.
    :param allow_gaps: with ``prove``, offsets may be missing: the topics were compacted once.
    :param bytes_per_second: with ``prove``, the most that is fetched in a second; ``None`` for as many as the store gives.
    :param fail_on_problems: fail the task for what needs a person.
    :param rlmm_conn_id: connection of type ``rlmm``; its Kafka connection is not opened.
    :return: the ``catalogue``'s folder, ``sha256`` of its table, ``kinds`` (kind → rows, those with rows), ``cluster_id``,
        and how many ``problems`` need a person.
    :raises AirflowFailException: naming how many things need a person, and the first of them.
    :raises CatalogueError: if the folder holds something else, or a source that was named cannot be read.
    :raises ConfigurationError: if the layout does not say which object of a segment is which file.
    :raises StorageError: if storage does not answer; there is no catalogue then.
    """

    template_fields: Sequence[str] = (
        "output_uri", "topics", "cluster_id", "manifests_per_second", "snapshots", "audits", "prove", "allow_gaps",
        "bytes_per_second", "fail_on_problems", "rlmm_conn_id",
    )  # fmt: skip
    arguments = _RecoverArguments
    ui_color = "#d9d2e9"
    touched = Touched(reads=(Place.STORAGE,))

    def __init__(
        self,
        *,
        output_uri: str,
        topics: Sequence[str] | None = None,
        cluster_id: str | None = None,
        manifests_per_second: int | str | None = None,
        snapshots: Sequence[str] | None = None,
        audits: Sequence[str] | None = None,
        prove: bool | str = False,
        allow_gaps: bool | str = False,
        bytes_per_second: int | str | None = None,
        fail_on_problems: bool | str = True,
        rlmm_conn_id: str = "rlmm_default",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.output_uri = output_uri
        self.topics = topics
        self.cluster_id = cluster_id
        self.manifests_per_second = manifests_per_second
        self.snapshots = snapshots
        self.audits = audits
        self.prove = prove
        self.allow_gaps = allow_gaps
        self.bytes_per_second = bytes_per_second
        self.fail_on_problems = fail_on_problems
        self.rlmm_conn_id = rlmm_conn_id
        self.check_literals()

    def execute(self, context: Context) -> dict[str, Any]:
        from airflow_provider_rlmm.features.recovery.steps import CatalogueRequest, make_catalogue
        from airflow_provider_rlmm.overview.recovery_documents import documents_at_hand

        read = self.read_arguments()
        hook = RemoteStorageHook(read.rlmm_conn_id)
        settings = hook.get_connection_settings()
        request = CatalogueRequest(
            storage_uri=settings.required_storage_uri(),
            output=read.output_uri,
            topics=read.topics,
            cluster_id=read.cluster_id or settings.expected_cluster_id,
            manifests_per_second=read.manifests_per_second,
            work_uri=work_uri(),
            snapshots_uri=settings.snapshots_uri,
            snapshots=read.snapshots,
            audits=read.audits,
            prove=read.prove,
            may_have_gaps=read.allow_gaps,
            bytes_per_second=read.bytes_per_second,
        )
        documents = documents_at_hand(work_uri(), settings.archive_uri)
        made = make_catalogue(hook.get_storage_manager(), request, documents=documents)
        problems = list(made.problems())
        kinds = {kind: amount.rows for kind, amount in made.kinds.items() if amount.rows}
        self.log.info("catalogue %s: %s", read.output_uri, kinds)
        for sentence in made.says:
            self.log.info("%s", sentence)
        for problem in problems:
            self.log.error("needs a person: %s", problem)
        result = self.told(
            {
                "catalogue": read.output_uri,
                "sha256": made.file.sha256,
                "kinds": kinds,
                "cluster_id": made.cluster_id,
                "problems": len(problems),
            }
        )
        if problems and read.fail_on_problems:
            # Of a task that fails Airflow keeps what it has pushed, not what it would have returned.
            context["ti"].xcom_push(key=BaseXCom.XCOM_RETURN_KEY, value=result)
            raise AirflowFailException(
                f"{number_of(len(problems), 'thing')} in the catalogue {read.output_uri} "
                f"{agreeing(len(problems), 'needs', 'need')} a person, such as: {problems[0]}"
            )
        return result
