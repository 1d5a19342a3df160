# SPDX-License-Identifier: Apache-2.0
"""Who is told of red runs in the tests: a file in a folder for each message. No DAG is here."""

from __future__ import annotations

import json
import os
import uuid
from pathlib import Path
from typing import Any


def on_red(context: Any) -> None:
    """Write the message down."""
    message = context["rlmm"]
    told = {"run_id": context["run_id"], "subject": message.subject, "text": message.text, "html": message.html}
    folder = Path(os.environ["RLMM_TEST_MESSAGES"])
    unfinished = folder / f"{uuid.uuid4()}.unfinished"
    unfinished.write_text(json.dumps(told))
    unfinished.rename(unfinished.with_suffix(".json"))
