# SPDX-License-Identifier: Apache-2.0
"""What the command prints: tables for people, JSON for pipes; what it is doing goes to standard error."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from airflow_provider_rlmm.core.base.quoting import human_bytes, printable
from airflow_provider_rlmm.core.plans.prices import money

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from airflow_provider_rlmm.core.log.topic_state import Progress as ReplayProgress

_WIDE = 10_000
_MAX_CELL = 2_000
_MAX_STATUS = 100
_NAMES = ("offset", "partition", "id", "epochs", "value")


class Output:
    """
    Prints what a command has found.

    :param as_json: whether JSON is wanted; tables otherwise.
    """

    def __init__(self, *, as_json: bool) -> None:
        from rich.console import Console  # --help prints without it

        self.as_json = as_json
        terminal = sys.stdout.isatty()
        # A pipe has no width: what follows it must get each cell whole.
        self._console = Console(width=None if terminal else _WIDE, highlight=False, markup=False, emoji=False)

    def rows(self, rows: Iterable[Mapping[str, Any]], columns: Mapping[str, str], title: str = "") -> None:
        """
        Print rows: a table with some of their columns, or one JSON object a line with all.

        :param rows: what was found.
        :param columns: field → heading, of the table.
        :param title: what the rows are; printed where there are none, too.
        """
        if self.as_json:
            for row in rows:
                self.document(row, indent=None)
            return
        from rich.table import Table
        from rich.text import Text

        table = Table(
            title=title or None,
            title_justify="left",
            box=None,
            pad_edge=False,
            header_style="bold",
            show_header=any(columns.values()),
        )
        first = True
        for row in rows:
            if first:
                for field, heading in columns.items():
                    table.add_column(heading, justify="right" if isinstance(row.get(field), int) else "left")
                first = False
            table.add_row(*(Text(_cell(field, row.get(field))) for field in columns))
        if first:
            self.line(f"{title}: none" if title else "none")
        else:
            self._console.print(table, soft_wrap=not sys.stdout.isatty())

    def problem(self, text: str) -> None:
        """
        Print what somebody has to see, to whoever reads a pipe too: beside JSON it goes to standard error.

        :param text: what it is.
        """
        if self.as_json:
            click.echo(f"rlmm: {text}", err=True)
        else:
            self.line(text, "bold red")

    def note(self, text: str) -> None:
        """
        Print a sentence for people, to whoever reads a pipe too: beside JSON it goes to standard error.

        :param text: the sentence.
        """
        if self.as_json:
            click.echo(f"rlmm: {text}", err=True)
        else:
            self.line(text)

    def document(self, document: Mapping[str, Any], *, indent: int | None = 2) -> None:
        """
        Print a JSON document.

        :param document: plain JSON types.
        :param indent: spaces for each level, ``None`` for one line.
        """
        sys.stdout.write(json.dumps(document, indent=indent) + "\n")

    def command(self, line: str) -> None:
        """
        Print a line that somebody copies into a terminal, whole and on one line; nothing where JSON is wanted.

        :param line: of words that a shell takes as they are, with no name in it but those that Kafka allows.
        """
        if not self.as_json:
            click.echo(line)

    def line(self, text: str, style: str = "") -> None:
        """
        Print a sentence for people; nothing where JSON is wanted.

        :param text: the sentence; what it repeats from elsewhere is made harmless.
        :param style: of rich.
        """
        if not self.as_json:
            from rich.text import Text

            self._console.print(Text(printable(text, _MAX_CELL), style=style), soft_wrap=True)


def _cell(field: str, value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_cell(name, amount)}" for name, amount in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(_cell(field, element) for element in value)
    if not isinstance(value, int) or isinstance(value, bool):
        return printable(str(value), _MAX_CELL)
    if field.endswith("bytes"):
        return human_bytes(value)
    if field.endswith("micros"):
        return money(value)
    # Numbers that name something are not counted.
    return str(value) if field.endswith(_NAMES) else f"{value:,}"


class Working:
    """
    Shows on standard error what is being done: a bar for what is read, a line for the rest; nothing where nobody looks.

    :param progress: of rich.
    """

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._reading: TaskID | None = None
        self._step: TaskID | None = None
        self._status = progress.add_task("starting", total=None)

    def on_read(self, progress: ReplayProgress) -> None:
        """Show how far the reading of the metadata topic is."""
        total = progress.records + progress.offsets_left
        if self._reading is None:
            self._reading = self._progress.add_task("reading the metadata topic", total=total)
        self._progress.update(self._reading, completed=progress.records, total=total)
        if not progress.offsets_left:
            self._progress.remove_task(self._reading)
            self._reading = None

    def on_step(self, what: str, done: int, total: int) -> None:
        """
        Show how far something is.

        :param what: what is being done.
        :param done: how much of it.
        :param total: of how much.
        """
        if self._step is None:
            self._step = self._progress.add_task(what, total=total)
        self._progress.update(self._step, description=what, completed=done, total=total)

    def say(self, text: str) -> None:
        """
        Show what is being done.

        :param text: a line of the log.
        """
        self._progress.update(self._status, description=printable(text, _MAX_STATUS))


class _StatusHandler(logging.Handler):
    """Shows the latest line of the log."""

    def __init__(self, working: Working, level: int) -> None:
        super().__init__(level)
        self._working = working

    def emit(self, record: logging.LogRecord) -> None:
        self._working.say(record.getMessage())


@contextmanager
def working() -> Iterator[Working]:
    """Show progress while the block works."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    package = logging.getLogger("airflow_provider_rlmm")
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        shown = Working(progress)
        handler = _StatusHandler(shown, logging.CRITICAL if progress.disable else logging.INFO)
        package.addHandler(handler)
        try:
            yield shown
        finally:
            package.removeHandler(handler)
