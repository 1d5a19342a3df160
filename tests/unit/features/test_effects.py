# SPDX-License-Identifier: Apache-2.0
"""All five writers act through effects: nobody gets real ones by default, and those of a dry run hold nothing that writes."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

import airflow_provider_rlmm
from airflow_provider_rlmm.core.world.effects import DryRunEffects, RealEffects
from airflow_provider_rlmm.features.archiving.restore_effects import DryRunRestoreEffects, RealRestoreEffects
from airflow_provider_rlmm.features.cleanup.marker import DryRunMarkerEffects, RealMarkerEffects
from airflow_provider_rlmm.features.copying.copy_effects import DryRunCopyEffects, RealCopyEffects
from airflow_provider_rlmm.features.scrub.scrub_effects import DryRunScrubEffects, RealScrubEffects

PACKAGE = Path(airflow_provider_rlmm.__file__).parent
MADE_IN = {
    RealEffects: "features/cleanup/steps.py",
    RealMarkerEffects: "features/cleanup/steps.py",
    RealScrubEffects: "features/scrub/steps.py",
    RealCopyEffects: "features/copying/steps.py",
    RealRestoreEffects: "features/archiving/restore_steps.py",
}
DRY = (DryRunEffects, DryRunMarkerEffects, DryRunScrubEffects, DryRunCopyEffects, DryRunRestoreEffects)
WRITERS = ("AuditLog", "CopyWriter", "GuardedPublisher", "MetadataLogWriter", "OffsetStore", "RestoringTopic")


@pytest.mark.parametrize("kind", MADE_IN, ids=lambda kind: kind.__name__)
def test_real_effects_are_made_in_one_place(kind: type) -> None:
    call = re.compile(rf"\b{kind.__name__}\(")
    sources = {file.relative_to(PACKAGE).as_posix(): file.read_text() for file in PACKAGE.rglob("*.py")}
    assert {name: len(call.findall(text)) for name, text in sources.items() if call.search(text)} == {MADE_IN[kind]: 1}


@pytest.mark.parametrize("kind", DRY, ids=lambda kind: kind.__name__)
def test_the_effects_of_a_dry_run_hold_nothing_that_writes_events_or_records(kind: type) -> None:
    assert [field.name for field in fields(kind) if any(writer in str(field.type) for writer in WRITERS)] == []
