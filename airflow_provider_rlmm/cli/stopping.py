# SPDX-License-Identifier: Apache-2.0
"""The command stop: the kill switch of the command, a file in its work folder."""

from __future__ import annotations

import click

from airflow_provider_rlmm.cli.access import MAX_STOP_BYTES, STOP_FILE, read_stop
from airflow_provider_rlmm.cli.help import command
from airflow_provider_rlmm.cli.options import Invocation, with_work_folder
from airflow_provider_rlmm.core.base.errors import ConfigurationError

_ONLY_HERE = (
    "Runs in Airflow have a switch of their own, which the button on the pages sets: the variable rlmm_stop. Neither switch "
    "stops the runs of the other."
)


@command()
@click.argument("reason", required=False)
@click.option("--off", is_flag=True, help="Let runs go on.")
@with_work_folder
def stop(invocation: Invocation, reason: str | None, off: bool) -> None:
    """
    Stop all runs of this command in its work folder after the batch under way: the kill switch.

    REASON is what runs say: write who you are and why. Without it the command says whether the switch is on. Runs that
    Airflow started are not stopped by it.
    """
    from airflow_provider_rlmm.core.base.file_systems import remove_file, replace_file

    if off and reason is not None:
        raise click.UsageError("a reason is for stopping: leave it out, or leave --off out")
    file = f"{invocation.storage_configuration().work_uri}/{STOP_FILE}"
    if off:
        remove_file(file)
    elif reason is not None:
        text = f"{reason.strip()}\n".encode()
        if len(text) > MAX_STOP_BYTES:
            raise ConfigurationError(
                f"the reason has {len(text)} bytes, more than {MAX_STOP_BYTES}: say it in fewer words"
            )
        replace_file(file, [text])
    why, output = read_stop(file), invocation.output
    if output.as_json:
        output.document({"file": file, "on": why is not None, "why": why})
        return
    output.line(f"No switch is on: there is no file {file}." if why is None else f"{why[:1].upper()}{why[1:]}.")
    if why is not None:
        output.line("Runs end after the batch under way, and none begins. To let them go on: rlmm stop --off")
    output.line(_ONLY_HERE)


COMMANDS = (stop,)
