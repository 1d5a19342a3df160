# SPDX-License-Identifier: Apache-2.0
"""
What ``--help`` shows: the options that a first run needs, and those of the command alone.

``--help-all`` shows the others, too, in groups.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import click

from airflow_provider_rlmm.cli.face import speak_of

BASIC: Final = {
    "only": "Only this topic: name, pattern or id.",
    "hold": "Topics that are never touched.",
    "execute": "Write and delete.",
    "bootstrap_server": "Brokers to ask first.",
    "command_config": "Java client properties: the login.",
    "config": "Configuration file in TOML.",
    "expected_cluster_id": "Refuse any other cluster.",
    "as_json": "Print JSON instead of tables.",
    "storage_uri": "Root: s3://…, gs://…, abfss://….",
    "layout": "aiven, template, local-tiered-storage.",
    "key_prefix": "As the storage plugin is configured.",
    "help": "Show this message and exit.",
}
"""Shared options that ``--help`` shows, on a line each; those of one command alone it always shows, in their own words."""

GROUPS: Final = {
    "Cluster": ("bootstrap_server", "command_config", "metadata_topic", "expected_cluster_id", "clock_topic"),
    "Storage": (
        "storage_uri", "layout", "key_prefix", "former_key_prefixes", "key_pattern", "key_suffixes", "plugin_settings",
        "store_options", "instance_metadata", "expected_root", "sole_owner",
    ),
    "What is touched": ("execute", "only", "hold", "max_segments_this_run", "archive_uri", "archive_first"),
    "Protections": (
        "min_absence_ms", "min_unreferenced_ms", "max_missing_segments", "allowed_quarantine", "overrides",
        "confirm_lost_records", "confirm_metadata_topic_id", "acknowledgements", "max_copy_ms",
    ),
    "Most that a run may delete": ("max_segments", "max_bytes", "max_share"),
    "Pace": ("batch_segments", "objects_per_second", "deletion_window", "max_minutes", "processes"),
    "Files and output": ("config", "work_uri", "as_json", "help", "help_all"),
}  # fmt: skip
"""Heading of ``--help-all`` → shared options, by the names that click gives them."""

_GROUPED: Final = frozenset(name for names in GROUPS.values() for name in names)
_ALL: Final = "airflow_provider_rlmm.help_all"


class GroupedCommand(click.Command):
    """A command whose ``--help`` leaves out what few people need."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command, which names settings by its own options."""
        speak_of(ctx)
        return super().invoke(ctx)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the options of the command, and ``--help-all`` where ``--help`` leaves some out."""
        params = super().get_params(ctx)
        return [*params, _HELP_ALL] if any(map(_is_left_out, params)) else params

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options that are asked for."""
        params = self.get_params(ctx)
        if not ctx.meta.get(_ALL):
            shown = (param for param in params if not _is_left_out(param))
            records = ((param.get_help_record(ctx), BASIC.get(str(param.name))) for param in shown)
            _write(formatter, "Options", [(r[0], short or r[1]) for r, short in records if r is not None])
            return
        own = [param for param in params if param.name not in _GROUPED]
        _write(formatter, "Options", _records(ctx, own))
        for heading, names in GROUPS.items():
            of_group = sorted((p for p in params if p.name in names), key=lambda p: names.index(str(p.name)))
            _write(formatter, heading, _records(ctx, of_group))


def _is_left_out(param: click.Parameter) -> bool:
    return param.name in _GROUPED and param.name not in BASIC and param is not _HELP_ALL


def _records(ctx: click.Context, params: list[click.Parameter]) -> list[tuple[str, str]]:
    return [record for param in params if (record := param.get_help_record(ctx)) is not None]


def _write(formatter: click.HelpFormatter, heading: str, records: list[tuple[str, str]]) -> None:
    if records:
        with formatter.section(heading):
            formatter.write_dl(records)


def _show_all(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        ctx.meta[_ALL] = True
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


_HELP_ALL: Final = click.Option(
    ["--help-all"],
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_all,
    help="Show all options, in groups.",
)


def command(name: str | None = None) -> Callable[[Callable[..., Any]], click.Command]:
    """
    Make a function a command, as :func:`click.command` does.

    :param name: of the command; ``None`` for that of the function.
    """
    return click.command(name, cls=GroupedCommand)
