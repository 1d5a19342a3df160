# SPDX-License-Identifier: Apache-2.0
"""
The templates, and what stands around every page.

The template engine escapes everything, and no text brings a line break, a mark of direction or a control character along.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Any, Final
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.clock import DAY_MS, since
from airflow_provider_rlmm.core.base.quoting import human_bytes, name_in_text, printable
from airflow_provider_rlmm.core.plans.prices import money
from airflow_provider_rlmm.core.plans.refusals import RefusalKind

_MAX_TEXT: Final = 4_000
_NEAR_MS: Final = 6 * DAY_MS
"""Of a time that is not further away the day of the week says enough."""

STATIC_FILES: Final = {
    "rlmm.css": "text/css",
    "rlmm.js": "text/javascript",
    "icon.svg": "image/svg+xml",
    "icon-dark.svg": "image/svg+xml",
}
"""The style sheet and the script of all pages, and the picture of Airflow's navigation → their types."""

MOODS: Final = {
    "LIVING": "ok",
    "ORPHANED": "warn",
    "WAITING": "calm",
    "ELIGIBLE": "info",
    "DELETING": "info",
    "REFUSED": "bad",
    "UNSEEN": "bad",
    "FINISHED": "calm",
    "COPY_SEGMENT_STARTED": "warn",
    "COPY_SEGMENT_FINISHED": "ok",
    "DELETE_SEGMENT_STARTED": "info",
    "DELETE_SEGMENT_FINISHED": "calm",
}
"""Colour of a state of a topic, a user partition or a segment; it says its name, too."""


@dataclass(frozen=True, slots=True)
class Shell:
    """
    What stands around a page.

    :param root: where the application is mounted, without a slash at the end.
    :param cluster_id: cluster of which the page tells, ``None`` if it is of no cluster alone.
    :param active: part of the cluster's pages to which it belongs: ``overview``, ``topics``, ``leaders``, ``runs`` or
        ``search``.
    :param stopped: why its runs are stopped now, where the page does not say it anyway.
    """

    root: str = ""
    cluster_id: str | None = None
    active: str = ""
    stopped: tuple[str, ...] = ()

    def to(self, *steps: object) -> str:
        """
        Return the address of another page.

        :param steps: its path below the application; with any text in it, it stays one step.
        """
        return "/".join([self.root, *(quote(str(step), safe="", errors="replace") for step in steps)])

    def static(self, name: str) -> str:
        """
        Return the address of a static file; it changes with the file, so that a browser may keep it for good.

        :param name: one of :data:`STATIC_FILES`.
        """
        return f"{self.to('static', name)}?v={hashlib.sha256(static_file(name)).hexdigest()[:16]}"


@cache
def static_file(name: str) -> bytes:
    """
    Return a static file.

    :param name: one of :data:`STATIC_FILES`.
    :raises KeyError: for any other.
    """
    if name not in STATIC_FILES:
        raise KeyError(name)
    return (files("airflow_provider_rlmm.plugins") / "static" / name).read_bytes()


def render(template: str, shell: Shell, **values: Any) -> str:
    """
    Return a page.

    :param template: its file.
    :param shell: what stands around it.
    :param values: what it shows.
    """
    return _environment().get_template(template).render(shell=shell, **values)


def human_duration(value: int) -> str:
    """
    Return a duration for people, such as ``3 min 20 s``.

    :param value: ms.
    """
    if value < 60_000:
        return f"{value / 1000:.1f} s"
    minutes, seconds = divmod(round(value / 1000), 60)
    hours, minutes = divmod(minutes, 60)
    if hours > 72:
        return f"{hours // 24} d {hours % 24} h"
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s"


def moment(time_ms: int, now_ms: int) -> str:
    """
    Return a time for people, by UTC: of the days around now ``Tue 15:43 UTC``, else ``2026-12-24 15:43 UTC``.

    :param time_ms: ms since the epoch.
    :param now_ms: ms since the epoch.
    """
    if abs(time_ms - now_ms) >= _NEAR_MS:
        return f"{_minute(time_ms)} UTC"
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%a %H:%M UTC")


def _minute(time_ms: int) -> str:
    return since(time_ms).removesuffix(" UTC").rsplit(":", 1)[0]


def _visible(value: Any) -> Any:
    """Return what an expression of a template said as it may be shown; the templates' own markup stays as it is."""
    return printable(value, _MAX_TEXT) if isinstance(value, str) and not isinstance(value, Markup) else value


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("airflow_provider_rlmm.plugins"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.tests["needing_a_person"] = lambda kind: RefusalKind(kind).needs_person
    filters: dict[str, Callable[..., Any]] = {
        "bytes": human_bytes,
        "time": since,
        "money": money,
        "minute": _minute,
        "moment": moment,
        "sentence": lambda text: f"{text[:1].upper()}{text[1:]}.",
        "duration": human_duration,
        "topic": name_in_text,
        "number": lambda value: f"{value:,}",
        "counted": number_of,
        "json": json.dumps,
        "words": lambda value: str(value).replace("_", " "),
        "mood": lambda state: MOODS.get(str(state), "calm"),
    }
    environment.filters |= filters
    return environment
