# SPDX-License-Identifier: Apache-2.0
"""Mutations of the rules for reading what a plugin has packed, and for writing a segment's files."""

from __future__ import annotations

from tests.mutations.mutation import Mutation, switched_off

AIVEN_MANIFEST = "storage/aiven_manifest.py"
AIVEN_FILES = "storage/aiven_files.py"

_MANIFESTS = "storage/test_aiven_manifest.py::"

SEGMENT_STORAGE = [
    switched_off(
        AIVEN_MANIFEST,
        "own manifest",
        "reads a segment by the manifest of another one",
        "        if found != wanted:",
        f"{_MANIFESTS}test_a_manifest_that_cannot_be_the_segments_is_refused",
    ),
    switched_off(
        AIVEN_FILES,
        "whole objects",
        "takes the rest of an object that was cut for all of it",
        "        if len(data) != stop - start:",
        f"{_MANIFESTS}test_a_log_that_was_cut_is_told_with_its_end",
    ),
    Mutation(
        "encrypted",
        "hands out encrypted bytes as a log",
        AIVEN_MANIFEST,
        'document.get("encryption") is not None',
        "False",
        f"{_MANIFESTS}test_what_is_not_known_here_is_said",
    ),
]
