# SPDX-License-Identifier: Apache-2.0
"""
The small JSON document of a catalogue: where it was made, what it counts, and what it does not say.

It names the table with its size, rows and SHA-256 and carries a SHA-256 of itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final

from airflow_provider_rlmm.core.base import strict_json as strict
from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.documents import AbsentAs, Text, reader_of, sealed_text, value_of
from airflow_provider_rlmm.core.base.errors import CatalogueError
from airflow_provider_rlmm.core.base.quoting import in_quotes, list_in_quotes
from airflow_provider_rlmm.core.plans.catalogue_rows import RECOVER_AGAIN, RowKind
from airflow_provider_rlmm.core.plans.plan import PlanFile

CATALOGUE_FORMAT: Final = 1
"""Version of the document; one of another version is not read."""

CATALOGUE_DOCUMENT: Final = "catalogue.json"
CATALOGUE_TABLE: Final = "catalogue.parquet"

MAX_LISTED: Final = 1_000
"""Topics and folders that the document lists; all are counted."""

SAYS: Final = (
    "It says what was copied, never what is alive: storage cannot know what retention, DeleteRecords or a person deleted.",
    "Two clusters that write to one place are told apart by their topic ids only.",
    "State and custom metadata of a segment are in none of its objects: only a snapshot tells them.",
)
"""What a reader of a catalogue has to know."""


class ClusterIdFrom(StrEnum):
    """What says of which cluster the segments are."""

    STAMP = "STAMP"  # the only stamp that lies beside the places, and says that it lies there
    PERSON = "PERSON"  # the person who made the catalogue
    UNKNOWN = "UNKNOWN"  # nothing


@dataclass(frozen=True, slots=True)
class CatalogueAmount:
    """How much there is of something."""

    rows: int = 0  # segments, holes, or objects of no segment
    objects: int = 0
    bytes: int = 0  # sizes of the objects, summed

    def __add__(self, other: CatalogueAmount) -> CatalogueAmount:
        return CatalogueAmount(self.rows + other.rows, self.objects + other.objects, self.bytes + other.bytes)


@dataclass(frozen=True, slots=True)
class CatalogueTopic:
    """What there is of one topic id."""

    topic: Text | None  # its name; ``None`` where keys can be read as of several
    topic_id: Text  # Kafka's base64 form
    whole: CatalogueAmount  # whole segments
    log_bytes: int  # sizes of their logs as they lay on the brokers' disks, summed
    needs_person: int  # rows that need a person


@dataclass(frozen=True, slots=True)
class UnlistedFolder:
    """A folder that was not listed whole."""

    folder: Text
    why: Text  # what the store said
    seen: CatalogueAmount  # objects that were listed below it all the same, in rows of kind CANNOT_TELL or FOREIGN


class SourceKind(StrEnum):
    """What was asked beside the storage."""

    SNAPSHOT = "SNAPSHOT"  # of the metadata topic, as runs leave it
    AUDIT = "AUDIT"  # the audit log of what runs have deleted
    INVENTORY = "INVENTORY"  # what the newest survey of a cluster found
    SCRUB = "SCRUB"  # what its latest scrub found
    ARCHIVE = "ARCHIVE"  # the folder of archives


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierSource:
    """A source beside the storage."""

    kind: SourceKind
    uri: Text
    sha256: Text | None = None  # of a snapshot's file, or of the document of a survey or scrub, lower-case hex
    made_at_ms: int | None = None  # when a snapshot or inventory was made, ms since the epoch
    cluster_id: Text | None = None  # of which cluster it is, where it is of one
    copied: int = 0  # segments that a snapshot or inventory has as copied, wherever they are
    # Segments of which objects were listed: copied ones of a snapshot or inventory, deleted ones of the others.
    found: int = 0
    why: Text | None = None  # why it cannot be read, or not whole


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenUp:
    """What runs had read that were interrupted, as far as the objects are as they were."""

    since_ms: int  # when the first of them began, ms since the epoch
    segments: int  # segments of which manifest, indexes or log were not read again
    proved: int  # segments whose contents were not read again
    discarded: tuple[
        Text, ...
    ]  # files of theirs that are not as they were written, with the reason: they were not used


@dataclass(frozen=True, slots=True)
class Catalogue:
    """
    The document of a catalogue.

    :param made_at_ms: when the listing began, ms since the epoch by the clock of this machine.
    :param layout: name of the layout.
    :param storage: where the storage root lies.
    :param places: names of the places that were listed.
    :param cluster_id: of which cluster the segments are, ``None`` where that is not known.
    :param cluster_id_from: who says so.
    :param stamps: clusters whose stamps lie beside the places, believed or not.
    :param says: what a reader of it has to know.
    :param asked_for: topics that were asked for, names and ids; none for all.
    :param not_found: those of them of which nothing was seen.
    :param listed: everything that was listed below the places.
    :param left_out: objects of other topics than those that were asked for, and of none.
    :param kinds: rows per :class:`~airflow_provider_rlmm.core.plans.catalogue_rows.RowKind`, all of them.
    :param topics: by name, at most :data:`MAX_LISTED`.
    :param topics_left_out: how many more there are.
    :param several_ids: names that more than one topic id has.
    :param incomplete: folders that were not listed whole, at most :data:`MAX_LISTED`.
    :param incomplete_left_out: how many more there are.
    :param foreign_folders: folders of no topic, which were not looked into.
    :param foreign: the first of them.
    :param file: the table.
    :param earlier: what was asked beside the storage, the newest snapshots first.
    :param taken_up: what interrupted runs had read; ``None`` where none was.
    """

    made_at_ms: int
    layout: Text
    storage: Text
    places: tuple[Text, ...]
    cluster_id: Text | None
    cluster_id_from: ClusterIdFrom
    stamps: tuple[Text, ...]
    says: tuple[Text, ...]
    asked_for: tuple[Text, ...]
    not_found: tuple[Text, ...]
    listed: CatalogueAmount
    left_out: CatalogueAmount
    kinds: Mapping[Annotated[str, value_of(RowKind)], CatalogueAmount]
    topics: tuple[CatalogueTopic, ...]
    topics_left_out: int
    several_ids: tuple[Text, ...]
    incomplete: tuple[UnlistedFolder, ...]
    incomplete_left_out: int
    foreign_folders: int
    foreign: tuple[Text, ...]
    file: PlanFile
    earlier: Annotated[tuple[EarlierSource, ...], AbsentAs([])] = ()
    taken_up: Annotated[TakenUp | None, AbsentAs(None)] = None

    def to_json(self) -> str:
        """
        Return the document.

        :raises CatalogueError: if it does not read back as it was written.
        """
        return sealed_text(self, CATALOGUE_FORMAT, self.from_json, CatalogueError, f"the catalogue of {self.storage}")

    @classmethod
    def from_json(cls, text: str) -> Catalogue:
        """
        Read the document.

        :param text: what :meth:`to_json` returned.
        :raises CatalogueError: if it is not, to the letter.
        """
        try:
            return _READ(strict.unsealed(text, CATALOGUE_FORMAT), "catalogue")
        except ValueError as e:
            raise CatalogueError(f"the document of a catalogue cannot be read ({e}); {RECOVER_AGAIN}") from e

    def problems(self) -> Iterator[str]:
        """Yield what needs a person, and what to do."""
        for kind, advice in _ADVICE.items():
            if rows := self._rows(kind):
                yield f"{rows:,} {kind}: {advice}"
        count = len(self.incomplete) + self.incomplete_left_out
        if count:
            shown = "; ".join(f"{in_quotes(one.folder)}: {one.why}" for one in self.incomplete[:3])
            yield (
                f"{number_of(count, 'folder was', 'folders were')} not listed whole, so segments and holes below them "
                f"are not told ({shown}): mend that, then {RECOVER_AGAIN}"
            )
        unread = [source for source in self.earlier if source.why is not None]
        if unread:
            shown = "; ".join(f"{in_quotes(source.uri)}: {source.why}" for source in unread[:3])
            yield (
                f"{number_of(len(unread), 'snapshot or audit log', 'snapshots or audit logs')} could not be read, or "
                "documents of surveys, scrubs or archives, so segments that they call deleted may stand here as "
                f"copied ({shown}): mend or remove them, then {RECOVER_AGAIN}"
            )
        if self.not_found:
            yield f"nothing was seen of {list_in_quotes(self.not_found)}: look whether name or id is right"
        if not self.not_found and not any(map(self._rows, _OF_SEGMENTS)):
            yield (
                "no object of any segment was seen: look whether storage_uri, layout and key_prefix are what the brokers "
                "had"
            )

    def _rows(self, kind: RowKind) -> int:
        # One that is older than a kind has no rows of it.
        return self.kinds[kind].rows if kind in self.kinds else 0


_READ = reader_of(Catalogue)

_OF_SEGMENTS: Final = tuple(kind for kind in RowKind if kind not in (RowKind.FOREIGN, RowKind.HOLE))

_ADVICE: Final[Mapping[RowKind, str]] = {
    RowKind.DAMAGED: "what proves them cannot be read, or contradicts key or sizes; the column why says which",
    RowKind.CONFLICT: "segments share offsets and no leader epoch tells which is the later; the column partners names them",
    RowKind.HOLE: "no whole segment has these offsets; the column partners names the segments beside them",
    RowKind.CANNOT_TELL: f"not all could be seen; the column why says what to mend, then {RECOVER_AGAIN}",
}
"""Kinds that need a person → what they mean."""
