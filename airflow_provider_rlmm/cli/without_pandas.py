# SPDX-License-Identifier: Apache-2.0
"""Hides pandas in processes that are the command's own."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder


class WithoutPandas(MetaPathFinder):
    """
    Lets nobody in this process import pandas.

    pyarrow asks for it as soon as it is given a Python value, which takes half a second where it is there, and no command
    uses it. The process is the command's own; in anybody else's nothing is hidden.
    """

    def find_spec(self, fullname: str, path: Sequence[str] | None = None, target: object = None) -> None:
        """See :class:`importlib.abc.MetaPathFinder`."""
        if fullname.partition(".")[0] == "pandas":
            raise ModuleNotFoundError("rlmm does without pandas", name=fullname)


def hide_pandas() -> None:
    """Hide it; called where a process of the command begins."""
    sys.meta_path.insert(0, WithoutPandas())
