# SPDX-License-Identifier: Apache-2.0
"""The command ``rlmm`` as a whole: its parts, its errors and its exit codes."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import click

from airflow_provider_rlmm.cli import (
    archiving,
    cleaning,
    copying,
    first_aid,
    health,
    init,
    orphaned,
    reading,
    recovering,
    remote_log,
    retention,
    scrubbing,
    spark,
    stopping,
    verifying,
    what_if,
    why,
)
from airflow_provider_rlmm.cli.exit_codes import ExitCode
from airflow_provider_rlmm.cli.face import in_terminal, speaking
from airflow_provider_rlmm.cli.interrupts import remembering_interrupts, was_interrupted
from airflow_provider_rlmm.cli.own_process import INTERRUPTED
from airflow_provider_rlmm.core.base.errors import RlmmError
from airflow_provider_rlmm.core.base.quoting import printable

_MAX_MESSAGE = 4_000
# Named, as importing them would import Kafka's client and more.
_WHOM_IT_ASKS = "airflow_provider_rlmm.core.log.kafka.listening.waiting", "airflow_provider_rlmm.core.storage.logins"


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 116})
@click.version_option(package_name="airflow-provider-rlmm", prog_name="rlmm")
@click.option("-v", "--verbose", count=True, help="Say what is done on standard error; -vv says it all.")
def rlmm(verbose: int) -> None:
    """
    Find and delete the remote log segments that deleted Kafka topics have left behind.

    Nothing is written and nothing is deleted unless a command is given --execute.

    \b
    A first look, which needs the brokers only:
      rlmm topics  --bootstrap-server broker:9092
      rlmm orphans --bootstrap-server broker:9092
      rlmm doctor  --bootstrap-server broker:9092
    With the storage (s3://…, gs://…, abfss://…, file:///…):
      rlmm check --bootstrap-server broker:9092 --storage s3://bucket/prefix --layout aiven
      rlmm clean --bootstrap-server broker:9092 --storage s3://bucket/prefix --layout aiven
      rlmm clean … --execute --cluster-id ID      marks; 24 hours later: deletes

    Every option can be written into ~/.config/rlmm/config.toml, or set as RLMM_BOOTSTRAP_SERVER, RLMM_STORAGE_URI,
    RLMM_LAYOUT and so on.

    \b
    Exit codes: 0 done; 1 refused or failed; 2 wrong usage; 3 no answer, try again;
    4 something needs a person; 130 interrupted.
    """  # noqa: D301
    click.get_current_context().with_resource(_logging(verbose))


@contextmanager
def _logging(verbose: int) -> Iterator[None]:
    package = logging.getLogger("airflow_provider_rlmm")
    shown = [package] if verbose else list(map(logging.getLogger, _WHOM_IT_ASKS))
    before, handler = package.level, logging.StreamHandler() if verbose else _WaitingHandler()
    handler.setFormatter(_InTerminal("%(asctime)s %(levelname)s %(message)s" if verbose else "%(message)s"))
    # The status line shows what is logged, whether or not it is printed.
    package.setLevel(logging.DEBUG if verbose > 1 else logging.INFO)
    for one in shown:
        one.addHandler(handler)
    try:
        yield
    finally:
        for one in shown:
            one.removeHandler(handler)
        package.setLevel(before)


class _InTerminal(logging.Formatter):
    """Says settings as the command that runs spells them; the lines of a traceback stay as they are."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        return in_terminal(super().formatMessage(record))


class _WaitingHandler(logging.Handler):
    """Prints for whom the command waits, and who is asked for a login."""

    def emit(self, record: logging.LogRecord) -> None:
        # By the standard error of this moment: a bar that is shown there has put itself before it.
        _say("rlmm", self.format(record))


_GROUPS = (
    reading, orphaned, remote_log, retention, what_if, why, health, init, cleaning, archiving, scrubbing, verifying,
    first_aid, recovering, copying, spark, stopping,
)  # fmt: skip
for _command in (command for group in _GROUPS for command in group.COMMANDS):
    rlmm.add_command(_command)


def main(arguments: Sequence[str] | None = None) -> None:
    """
    Run the command and leave the process with its exit code.

    :param arguments: of the command line, ``None`` for those of this process.
    """
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None, command: click.Command = rlmm, name: str = "rlmm") -> int:
    """
    Run the command.

    :param arguments: of the command line, ``None`` for those of this process.
    :param command: the command; another program may have one with the same options.
    :param name: under which the program says why it ends.
    :return: an :class:`ExitCode`.
    """
    with speaking(), remembering_interrupts():
        try:
            return _run(arguments, command, name)
        except KeyboardInterrupt:
            pass
        except Exception:
            if not was_interrupted():
                raise
    _say(name, INTERRUPTED)
    return ExitCode.INTERRUPTED


def _run(arguments: Sequence[str] | None, command: click.Command, name: str) -> int:
    given = None if arguments is None else list(arguments)
    try:
        code = command.main(args=given, prog_name=name, standalone_mode=False)
    except click.Abort:
        raise KeyboardInterrupt from None
    except click.ClickException as e:
        e.show()
        return e.exit_code
    except (RlmmError, OSError) as e:
        if was_interrupted():
            raise
        if isinstance(e, RlmmError):
            _say(name, str(e))
            return ExitCode.UNAVAILABLE if e.retriable else ExitCode.FAILED
        _say(name, f"{e.strerror or type(e).__name__}{f': {e.filename}' if e.filename else ''}")
        return ExitCode.FAILED
    return code if isinstance(code, int) else ExitCode.DONE


def _say(name: str, message: str) -> None:
    click.echo(f"{name}: {printable(in_terminal(message), _MAX_MESSAGE)}", err=True)
