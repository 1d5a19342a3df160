# SPDX-License-Identifier: Apache-2.0
"""Arrays that pyarrow itself would have made, made without asking for pandas."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_rlmm.core.base.arrow_arrays import array_of, equals, filled, is_among, null_of, scalar_of

TYPES = {
    pa.int8(): st.integers(-(2**7), 2**7 - 1),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.float64(): st.floats(allow_nan=False) | st.integers(-1000, 1000),
    pa.bool_(): st.booleans(),
    pa.binary(): st.binary(),
    pa.string(): st.text(st.characters(exclude_categories=["Cs"])),
}


@given(st.data())
def test_an_array_is_the_one_that_pyarrow_makes(data: st.DataObject) -> None:
    arrow_type = data.draw(st.sampled_from([*TYPES]))
    values = data.draw(st.lists(st.none() | TYPES[arrow_type]))
    made = array_of(values, arrow_type)
    made.validate(full=True)
    assert made.equals(pa.array(values, arrow_type))
    assert made.null_count == values.count(None)
    for value in values:
        assert scalar_of(value, arrow_type).equals(pa.scalar(value, arrow_type))


@given(st.data())
def test_numbers_of_numpy_may_be_null(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from([np.int8, np.int32, np.int64, np.uint64, np.float64, np.bool_]))
    values = np.array(data.draw(st.lists(st.integers(0, 1))), dtype)
    nulls = np.array(data.draw(st.lists(st.booleans(), min_size=values.size, max_size=values.size)), bool)
    # Whoever takes every second one has no longer what lies side by side.
    for some, null in ((values, nulls), (values[::2], nulls[::2])):
        assert array_of(some).equals(pa.array(some))
        assert array_of(some, nulls=null).equals(pa.array(some, mask=null))
        assert array_of(some, pa.int64()).equals(pa.array(some).cast(pa.int64()))


@pytest.mark.parametrize(
    ("values", "arrow_type"),
    [
        ([1.5], pa.int64()),
        (["5"], pa.int32()),
        ([0.0], pa.int8()),
        ([""], pa.bool_()),
        ([1], pa.binary()),
        ([[1]], pa.list_(pa.int8())),
    ],
)
def test_what_is_of_another_type_is_refused(values: list[Any], arrow_type: Any) -> None:
    with pytest.raises(TypeError):
        array_of(values, arrow_type)


def test_a_number_that_does_not_fit_is_refused() -> None:
    with pytest.raises(OverflowError):
        array_of([128], pa.int8())
    with pytest.raises(pa.ArrowInvalid):
        array_of(np.array([128]), pa.int8())


def test_a_column_is_compared_with_constants() -> None:
    column = pa.array([1, None, 3], pa.int32())
    assert equals(column, 3).to_pylist() == [False, None, True]
    assert is_among(column, [1, 2]).to_pylist() == [True, False, False]
    assert filled(column, -1).to_pylist() == [1, -1, 3]
    assert filled(pa.chunked_array([column]), -1).to_pylist() == [1, -1, 3]
    assert not null_of(pa.binary()).is_valid


@pytest.mark.slow
def test_pandas_is_not_asked() -> None:
    program = (
        "import sys, numpy as np, pyarrow as pa\n"
        "from airflow_provider_rlmm.core.base.arrow_arrays import array_of, equals, filled, is_among, null_of\n"
        "column = array_of([1, None, 3], pa.int32())\n"
        "equals(column, 3), is_among(column, [1]), filled(column, 0), null_of(pa.string())\n"
        "array_of(np.arange(3), nulls=np.arange(3) == 1), array_of([b'', None], pa.binary()), array_of(['a'], pa.string())\n"
        "assert 'pandas' not in sys.modules\n"
        "pa.array([1])\n"
        # Or it was not there, and this test cannot fail.
        "assert 'pandas' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
