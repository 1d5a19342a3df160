# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_rlmm.plugins.charts import HEIGHT, WIDTH, Block, Column, Point, bars, columns, offset_map, trend

EVIL = "<script>alert(1)</script>"
TIMES = st.lists(st.tuples(st.integers(0, 2**62), st.floats(0, 1e18)), max_size=300)


def numbers(drawing: str, *attributes: str) -> list[float]:
    return [float(n) for a in attributes for n in re.findall(rf'\b{a}="([^"]*)"', drawing)]


@given(points=TIMES)
def test_a_chart_is_whole_and_within_its_frame(points: list[tuple[int, float]]) -> None:
    shown = [Point(time, value) for time, value in sorted(points)]
    for draw in (trend, bars):
        drawing = draw(shown, str)
        ElementTree.fromstring(drawing)
        assert all(0 <= x <= WIDTH for x in numbers(drawing, "cx", "x"))
        assert all(0 <= y <= HEIGHT for y in numbers(drawing, "cy", "y"))


def test_figures_stand_side_by_side_as_high_as_they_are() -> None:
    shown = [Column("a", 10, "ten"), Column(EVIL, 0, EVIL), Column("c", 5, "five"), Column("d", 0.001, "little")]
    drawing = columns(shown, str)
    ElementTree.fromstring(drawing)
    assert "<script" not in drawing
    assert numbers(drawing, "height") == [66, 0, 33, 1], "what is not 0 is seen"
    assert all(0 <= x <= WIDTH for x in numbers(drawing, "x"))
    ElementTree.fromstring(columns([], str))


def test_a_peak_is_never_left_out() -> None:
    points = [Point(n, 7.0 if n == 777 else 1.0) for n in range(2_000)]
    assert "7.0, 1970" in trend(points, str)
    assert trend(points, str).count("<circle") <= 130


def test_without_points_it_says_so() -> None:
    assert "no run has said it yet" in trend([], str)
    assert "no run has said it yet" in bars([], str)


def test_texts_of_others_stay_texts() -> None:
    blocks = [Block(0, 99, 0, "ok", EVIL)]
    for drawing in (offset_map(blocks, 0, 99, [EVIL]), trend([Point(1, 1)], lambda _: EVIL)):
        ElementTree.fromstring(drawing)
        assert "<script" not in drawing


def test_ranges_lie_where_their_offsets_are() -> None:
    drawing = offset_map([Block(0, 49, 0, "ok", "a"), Block(50, 99, 1, "bad", "b")], 0, 99, ["epoch 0", "epoch 1"])
    assert re.findall(r'class="seg seg-(\w+)" x="([\d.]+)" y="(\d+)" width="([\d.]+)"', drawing) == [
        ("ok", "60.00", "0", "470.00"),
        ("bad", "530.00", "18", "470.00"),
    ]
