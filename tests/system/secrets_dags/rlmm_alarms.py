# SPDX-License-Identifier: Apache-2.0
"""Who is told of red runs: one that writes messages down, and one whose address holds a token and does not answer."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from urllib.request import urlopen
from uuid import uuid4


def write_down(context: Any) -> None:
    """Keep the message as a file."""
    message = context["rlmm"]
    file = Path(os.environ["RLMM_TEST_MESSAGES"]) / f"{uuid4()}.txt"
    file.write_text("\n".join([message.subject, message.text, message.html]))


def call(context: Any) -> None:
    """Send the message to an address that refuses it; the error repeats the address, as those of HTTP clients do."""
    address = os.environ["RLMM_TEST_HOOK"]
    try:
        urlopen(address, timeout=5)
    except OSError as e:
        raise RuntimeError(f"POST {address} failed: {e}") from e


on_red = [write_down, call]
