# SPDX-License-Identifier: Apache-2.0
"""
Charts as SVG within a page: pure functions from figures to markup.

A chart has no script, no style of its own and no text of others: its colours are classes of the style sheet, its labels are
figures and times that are made here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from markupsafe import Markup, escape

WIDTH, HEIGHT = 320, 96
_LEFT, _TOP, _BOTTOM = 4, 12, 78
_MAX_POINTS = 120

MAP_WIDTH, MAP_ROW = 1000, 18
_MAP_LEFT = 60
MAX_MAP_BLOCKS = 400
"""Rectangles of a map of offsets, at most: more than these are narrower than a pixel or two."""


@dataclass(frozen=True, slots=True)
class Point:
    """A figure at a time."""

    time_ms: int  # ms since the epoch
    value: float


@dataclass(frozen=True, slots=True)
class Block:
    """A range of offsets in one colour."""

    start: int  # inclusive
    end: int  # inclusive
    row: int  # from 0, downwards
    mood: str  # class of the style sheet without its prefix: ok, warn, bad, info, calm
    words: str  # what it says when it is pointed at


@dataclass(frozen=True, slots=True)
class Column:
    """A figure with a name."""

    name: str  # a few letters, made here
    value: float
    words: str  # what it says when it is pointed at


def trend(points: Sequence[Point], in_words: Callable[[float], str]) -> Markup:
    """
    Draw figures over time as a line with an area below it.

    :param points: in order of time.
    :param in_words: how a figure is written.
    :return: the drawing; without points an empty one.
    """
    shown = _thinned(points)
    if not shown:
        return _drawing(WIDTH, HEIGHT, "nothing yet", [_text(WIDTH / 2, 50, "no run has said it yet", "middle")])
    top = max(point.value for point in shown) or 1
    places = [(_x(point, shown), _BOTTOM - (_BOTTOM - _TOP) * point.value / top, point) for point in shown]
    line = " ".join(f"{'M' if i == 0 else 'L'}{x:.1f} {y:.1f}" for i, (x, y, _) in enumerate(places))
    area = f"{line} L{places[-1][0]:.1f} {_BOTTOM} L{places[0][0]:.1f} {_BOTTOM} Z"
    parts = [
        Markup('<path class="below" d="{}"/>').format(area),
        Markup('<path class="trend" d="{}"/>').format(line),
        Markup('<circle class="dot" cx="{:.1f}" cy="{:.1f}" r="3"/>').format(*places[-1][:2]),
        *(_touch(x, y, point, in_words) for x, y, point in places),
    ]
    return _framed(shown, in_words(top), parts)


def bars(points: Sequence[Point], in_words: Callable[[float], str]) -> Markup:
    """
    Draw figures over time as bars, one for each run.

    :param points: in order of time.
    :param in_words: how a figure is written.
    :return: the drawing; without points an empty one.
    """
    shown = _thinned(points)
    if not shown:
        return _drawing(WIDTH, HEIGHT, "nothing yet", [_text(WIDTH / 2, 50, "no run has said it yet", "middle")])
    top = max(point.value for point in shown) or 1
    step = (WIDTH - 2 * _LEFT) / max(len(shown), 12)
    parts = []
    for i, point in enumerate(shown):
        height = max((_BOTTOM - _TOP) * point.value / top, 1 if point.value else 0)
        parts.append(
            Markup(
                '<rect class="bar" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" rx="1"><title>{}</title></rect>'
            ).format(_LEFT + i * step, _BOTTOM - height, step * 0.8, height, _said(point, in_words))
        )
    return _framed(shown, in_words(top), parts)


def columns(shown: Sequence[Column], in_words: Callable[[float], str]) -> Markup:
    """
    Draw figures side by side, each with its name below.

    :param shown: from left to right.
    :param in_words: how a figure is written.
    """
    top = max((column.value for column in shown), default=0) or 1
    step = WIDTH / max(len(shown), 1)
    parts = [
        Markup('<line class="axis" x1="0" x2="{}" y1="{}" y2="{}"/>').format(WIDTH, _BOTTOM, _BOTTOM),
        _text(0, 9, in_words(top), "start"),
    ]
    for i, column in enumerate(shown):
        height = max((_BOTTOM - _TOP) * column.value / top, 1 if column.value else 0)
        bar = Markup(
            '<rect class="bar" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" rx="1"><title>{}</title></rect>'
        )
        parts.append(bar.format((i + 0.1) * step, _BOTTOM - height, step * 0.8, height, column.words))
        parts.append(_text((i + 0.5) * step, 92, column.name, "middle"))
    return _drawing(WIDTH, HEIGHT, ", ".join(column.words for column in shown), parts)


def offset_map(blocks: Sequence[Block], start: int, end: int, rows: Sequence[str]) -> Markup:
    """
    Draw ranges of offsets side by side, a row for each leader epoch.

    :param blocks: the first :data:`MAX_MAP_BLOCKS` of them are drawn.
    :param start: offset at the left, inclusive.
    :param end: offset at the right, inclusive.
    :param rows: name of each row, downwards.
    """
    scale = (MAP_WIDTH - _MAP_LEFT) / max(end - start + 1, 1)
    parts = [_text(0, row * MAP_ROW + 12, name, "start") for row, name in enumerate(rows)]
    for block in blocks[:MAX_MAP_BLOCKS]:
        first, last = max(block.start, start), min(block.end, end)
        x, width = _MAP_LEFT + scale * (first - start), scale * (last - first + 1)
        parts.append(
            Markup(
                '<rect class="seg seg-{}" x="{:.2f}" y="{}" width="{:.2f}" height="{}" rx="2"><title>{}</title></rect>'
            ).format(block.mood, x, block.row * MAP_ROW, max(width, 1.5), MAP_ROW - 4, block.words)
        )
    height = len(rows) * MAP_ROW + 14
    parts.append(_text(_MAP_LEFT, height - 2, f"{start:,}", "start"))
    parts.append(_text(MAP_WIDTH, height - 2, f"{end:,}", "end"))
    return _drawing(MAP_WIDTH, height, f"offsets {start:,} to {end:,}", parts)


def _thinned(points: Sequence[Point]) -> list[Point]:
    """Leave out points that lie too close to be told apart; of each group the largest stays, so no peak is lost."""
    if len(points) <= _MAX_POINTS:
        return list(points)
    size = -(-len(points) // _MAX_POINTS)
    groups = [points[i : i + size] for i in range(0, len(points), size)]
    return [max(group, key=lambda point: point.value) for group in groups]


def _x(point: Point, points: Sequence[Point]) -> float:
    first, last = points[0].time_ms, points[-1].time_ms
    share = 0.5 if last <= first else (point.time_ms - first) / (last - first)
    return 2 * _LEFT + (WIDTH - 4 * _LEFT) * share


def _touch(x: float, y: float, point: Point, in_words: Callable[[float], str]) -> Markup:
    place = Markup('<circle class="touch" cx="{:.1f}" cy="{:.1f}" r="7"><title>{}</title></circle>')
    return place.format(x, y, _said(point, in_words))


def _said(point: Point, in_words: Callable[[float], str]) -> str:
    return f"{in_words(point.value)}, {_when(point.time_ms, '%Y-%m-%d %H:%M UTC')}"


def _framed(points: Sequence[Point], top: str, parts: Sequence[Markup]) -> Markup:
    axis = Markup('<line class="axis" x1="0" x2="{}" y1="{}" y2="{}"/>').format(WIDTH, _BOTTOM, _BOTTOM)
    labels = [_text(0, 9, top, "start"), _text(0, 92, _when(points[0].time_ms, "%d %b"), "start")]
    if len(points) > 1:
        labels.append(_text(WIDTH, 92, _when(points[-1].time_ms, "%d %b %H:%M"), "end"))
    return _drawing(WIDTH, HEIGHT, f"at most {top}", [axis, *parts, *labels])


def _when(time_ms: int, form: str) -> str:
    try:
        return datetime.fromtimestamp(time_ms / 1000, UTC).strftime(form)
    except (ValueError, OverflowError, OSError):
        return f"{time_ms} ms"


def _text(x: float, y: float, words: str, anchor: str) -> Markup:
    return Markup('<text x="{:.0f}" y="{:.0f}" text-anchor="{}">{}</text>').format(x, y, anchor, words)


def _drawing(width: int, height: int, words: str, parts: Sequence[Markup]) -> Markup:
    head = Markup('<svg viewBox="0 0 {} {}" role="img" aria-label="{}">').format(width, height, words)
    return head + Markup("").join(map(escape, parts)) + Markup("</svg>")
