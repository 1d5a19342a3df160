# SPDX-License-Identifier: Apache-2.0
"""How long each step of a run took: a few bytes in the folder of the run, for its summary."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager

from airflow_provider_rlmm.core.base import strict_json as strict
from airflow_provider_rlmm.core.base.clock import monotonic_clock
from airflow_provider_rlmm.core.base.errors import PlanError
from airflow_provider_rlmm.core.base.file_systems import list_files
from airflow_provider_rlmm.core.plans.plan_files import read_document, write_document

logger = logging.getLogger(__name__)

_NAME = re.compile(r"step-([a-z]{1,40}(?:-(?:0|[1-9][0-9]{0,9}))?)\.json")
_MAX_STEPS = 10_000
_MAX_BYTES = 1_000


@contextmanager
def step(uri: str, name: str) -> Iterator[None]:
    """
    Note how long the block took, however it ended; where that cannot be written the log says so.

    :param uri: of the folder of the run.
    :param name: of the step, lower-case letters; where it runs for each metadata partition, a dash and its number follow.
    """
    began = monotonic_clock()
    try:
        yield
    finally:
        seconds = (monotonic_clock() - began) / 1000
        try:
            write_document(uri, f"step-{name}.json", json.dumps({"seconds": seconds}))
        except (OSError, PlanError) as e:
            logger.warning("step %s took %.1f s, and that cannot be noted: %s", name, seconds, e)


def seconds_of_steps(uri: str) -> dict[str, float]:
    """
    Return how long each step of a run took in its last try, seconds; of a step that ran several times, all of them together.

    What cannot be read is left out, with a line in the log.

    :param uri: of the folder of the run.
    """
    found: dict[str, float] = {}
    try:
        names = [name for name in list_files(uri) if _NAME.fullmatch(name)][:_MAX_STEPS]
        for name in names:
            document = strict.parse_object(read_document(uri, name, _MAX_BYTES))
            what = name.removeprefix("step-").removesuffix(".json").partition("-")[0]
            found[what] = found.get(what, 0.0) + strict.number(document.get("seconds"), "seconds")
    except (OSError, ValueError, PlanError) as e:
        logger.warning("not all is known of how long the steps took: %s", e)
    return found
