# SPDX-License-Identifier: Apache-2.0
"""What the command prints: tables for people, JSON for pipes; what it is doing goes to standard error."""

from __future__ import annotations

import json
import logging
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any

import click

from airflow_provider_rlmm.cli.face import in_terminal
from airflow_provider_rlmm.cli.tables import MAX_CELL, lines_of
from airflow_provider_rlmm.core.base.quoting import printable

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from airflow_provider_rlmm.core.log.topic_state import Progress as ReplayProgress

_MAX_STATUS = 100


class Output:
    """
    Prints what a command has found.

    Where the reader of a pipe has gone, the rest is not printed, and the command goes on: its exit code says what was found.

    :param as_json: whether JSON is wanted; tables otherwise.
    """

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json

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
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        lines = lines_of(rows, columns, width)
        first = next(lines, None)
        if first is None:
            self.line(f"{title}: none" if title else "none")
            return
        if title:
            self.line(title, bold=True)
        for line in chain([first], lines):
            _write(line)

    def problem(self, text: str) -> None:
        """
        Print what a person has to see, to the reader of a pipe too: beside JSON it goes to standard error.

        :param text: what it is.
        """
        if self.as_json:
            click.echo(f"rlmm: {in_terminal(text)}", err=True)
        else:
            self.line(text, red=True)

    def note(self, text: str) -> None:
        """
        Print a sentence for people, to the reader of a pipe too: beside JSON it goes to standard error.

        :param text: the sentence.
        """
        if self.as_json:
            click.echo(f"rlmm: {in_terminal(text)}", err=True)
        else:
            self.line(text)

    def document(self, document: Mapping[str, Any], *, indent: int | None = 2) -> None:
        """
        Print a JSON document.

        :param document: plain JSON types.
        :param indent: spaces for each level, ``None`` for one line.
        """
        _write(json.dumps(document, indent=indent))

    def command(self, line: str) -> None:
        """
        Print a line that a person copies into a terminal, whole and on one line; nothing where JSON is wanted.

        :param line: of words that a shell takes as they are, with no name in it but those that Kafka allows.
        """
        if not self.as_json:
            _write(line)

    def line(self, text: str, *, red: bool = False, bold: bool = False) -> None:
        """
        Print a sentence for people; nothing where JSON is wanted.

        :param text: the sentence; what it repeats from elsewhere is made harmless.
        :param red: whether a person has to see it.
        :param bold: whether it is a heading.
        """
        if not self.as_json:
            harmless = printable(in_terminal(text), MAX_CELL)
            _write(click.style(harmless, fg="red", bold=True) if red else click.style(harmless, bold=bold or None))


def _write(text: str) -> None:
    """Print a line; styles are left out of what is no terminal."""
    try:
        click.echo(text)
    except BrokenPipeError:
        # The interpreter would complain again when it flushes what is left at its end.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


class Working:
    """
    Shows on standard error what is being done: a bar for what is read, a line for the rest; nothing where no person looks.

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
