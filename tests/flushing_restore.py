# SPDX-License-Identifier: Apache-2.0
"""
The command, whose restores write a few hundred records at a time: ``python -m tests.flushing_restore restore …``.

Each few are acked before the next are sent, so that whoever kills the process finds it in the midst of its work. What an
earlier producer has sent is waited for by as few seconds as its requests may take.
"""

from __future__ import annotations

import sys
from typing import Any

from airflow_provider_rlmm.cli.main import run
from airflow_provider_rlmm.core.log.kafka import restoring

ROWS = 200
DELIVERY_TIMEOUT_S = 5.0


def main() -> int:
    """Run the command."""
    produce = restoring.RestoringTopic._produce

    def flushing(self: Any, producer: Any, *given: Any) -> int:
        written = produce(self, producer, *given)
        producer.flush(DELIVERY_TIMEOUT_S)
        return written

    restoring._ROWS = ROWS  # type: ignore[misc]
    restoring.DELIVERY_TIMEOUT_S = DELIVERY_TIMEOUT_S  # type: ignore[misc]
    restoring.RestoringTopic._produce = flushing  # type: ignore[method-assign]
    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
