# SPDX-License-Identifier: Apache-2.0
"""How a command ended, for scripts."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What a script can tell from."""

    DONE = 0
    """All was done, and nothing needs a person."""

    FAILED = 1
    """Refused, or failed; trying again changes nothing."""

    USAGE = 2
    """The command was not understood."""

    UNAVAILABLE = 3
    """Cluster or storage did not answer: the same command may succeed later."""

    NEEDS_A_PERSON = 4
    """Done as far as it is healthy, and something needs a person: the output says what."""

    INTERRUPTED = 130
    """Ctrl-C: what was done stays done, and the next run goes on."""
