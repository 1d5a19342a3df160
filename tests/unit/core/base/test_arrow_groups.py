# SPDX-License-Identifier: Apache-2.0
"""Groups of rows are those that pyarrow makes."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_rlmm.core.base.arrow_groups import groups_of

SCHEMA = pa.schema([("name", pa.string()), ("id", pa.binary()), ("number", pa.int32()), ("size", pa.int64())])


def random_table(seed: int) -> pa.Table:
    rng = Random(seed)

    def some(*values: Any) -> list[Any]:
        return [rng.choice((*values, None)) for _ in range(rng.choice((0, 1, 7, 200)))]

    chunks = []
    for _ in range(rng.randint(1, 3)):
        names = some("a", "b", "")
        columns = [names, [rng.choice((b"1", b"2", None)) for _ in names], [rng.choice((-1, 0, None)) for _ in names]]
        sizes = [rng.randrange(-(2**50), 2**50) for _ in names]
        chunks.append(pa.table([*columns, sizes], schema=SCHEMA))
    return pa.concat_tables(chunks)


@pytest.mark.parametrize("seed", range(40))
def test_groups_are_pyarrows(seed: int) -> None:
    table, keys = random_table(seed), Random(seed).choice((["name"], ["id", "number"], ["number", "name", "id"]))
    numbered = table.append_column("row", pa.array(range(table.num_rows), pa.int64()))
    amounts = [("size", "sum"), ("size", "min"), ("row", "min"), ("row", "max"), ("row", "count")]
    expected = numbered.group_by(keys).aggregate(amounts).sort_by("row_min").to_pydict()
    groups = groups_of(table, keys)
    assert groups.keys(keys).to_pydict() == {key: expected[key] for key in keys}
    assert groups.first.tolist() == expected["row_min"]
    assert groups.last().tolist() == expected["row_max"]
    assert groups.rows().tolist() == expected["row_count"]
    assert groups.total("size").tolist() == expected["size_sum"]
    assert groups.least("size").tolist() == expected["size_min"]
    firsts = [groups.first.tolist()[number] for number in groups.of_row.tolist()]
    assert all(
        table.select(keys).slice(row, 1).equals(table.select(keys).slice(first, 1)) for row, first in enumerate(firsts)
    )


def test_null_counts_as_nothing_in_a_sum() -> None:
    table = pa.table({"name": ["a", "b", "a"], "size": pa.array([None, None, 5], pa.int64())})
    assert groups_of(table, ["name"]).total("size").tolist() == [5, 0]
