# SPDX-License-Identifier: Apache-2.0
"""What processes of the command do to themselves as they begin; in anybody else's process none of it is done."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import FrameType, ModuleType

_ALLOCATIONS = 100_000
"""
Objects that may be made, less those that were freed, before Python looks for garbage among them; its own default is 700.

What is read of the metadata topic are hundreds of thousands of small objects that live to the end, and none of them is in a
circle: looking through them again and again took a fifteenth of the processor time of a deletion.
"""


class WithoutPandas:
    """
    Lets no code in this process import pandas: a finder of modules, of no base class, as the module that has it takes 20 ms.

    pyarrow asks for it as soon as it is given a Python value, which takes half a second where it is there, and no command
    uses it. The process is the command's own; in anybody else's nothing is hidden.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See :class:`importlib.abc.MetaPathFinder`."""
        if fullname.partition(".")[0] == "pandas":
            raise ModuleNotFoundError("rlmm does without pandas", name=fullname)
        return None


INTERRUPTED = "interrupted: what was done stays done, and the next run goes on from there"
"""What a command says that was interrupted."""

_INTERRUPTED_CODE = 130
"""As a shell has it; the exit codes are in a module that takes its time to import."""


def end_by_interrupts() -> None:
    """
    Have a Ctrl-C end this process with one line, before and after its command works.

    While modules are imported, and while the interpreter ends, nothing is under way that would have to be tidied up.
    """
    signal.signal(signal.SIGINT, _end)


def _end(signal_number: int, frame: FrameType | None) -> None:
    # Neither a stream nor a lock of Python's may be in use by what was interrupted.
    os.write(2, f"rlmm: {INTERRUPTED}\n".encode())
    os._exit(_INTERRUPTED_CODE)


def begin_process() -> None:
    """Hide pandas, and look for garbage seldom; called where a process of the command begins."""
    sys.meta_path.insert(0, WithoutPandas())
    gc.set_threshold(_ALLOCATIONS, *gc.get_threshold()[1:])
    # A process that this one starts takes no module out of the folder in which the user happens to be.
    os.environ.setdefault("PYTHONSAFEPATH", "1")
