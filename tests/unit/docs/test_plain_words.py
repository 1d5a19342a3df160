# SPDX-License-Identifier: Apache-2.0
"""
Pages, docstrings, comments and messages use plain words: who is meant, one word for a thing, and durations that can be read.

The words of a thing are those of ``docs/terms.md``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "airflow_provider_rlmm"
PAGES = [*(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY")), *(ROOT / "docs").rglob("*.md")]
FROM_TESTS = "\n| breaks |"  # the table of mutations tells tests by their names
WHO = r"(?i)\b(?:some|no)body\b|\b(?:who|what)ever\b"
SYNONYMS = {
    "real run": r"(?i)\bruns? for real\b",
    "kill switch": r"(?i)\b(?:stop|emergency) switch\b",
    "orphaned": r"(?i)\b(?:left[- ]?over|abandoned|zombie|unowned|dead) segments?\b",
    "dry run": r"(?i)\b(?:trial|rehearsal|simulated) runs?\b",
    "hold": r"(?i)\b(?:black|deny|exclude)[- ]?lists?\b",
    "only": r"(?i)\b(?:white|include)[- ]?lists?\b",
    "work folder": r"(?i)\b(?:work|state) director(?:y|ies)\b",
}
UNREADABLE = {
    "a duration in milliseconds": r"(?<![-\w=:.])\d{6,} ms\b",
    "a cut id": r"\b(?=[\w-]*\d)(?=[\w-]*[A-Z])(?=[\w-]*[a-z])[\w-]{8,21}…",
}


def told(text: str, pattern: str) -> list[str]:
    """Return what is found in a text, with the words around it."""
    flat = re.sub(r"\s*\n\s*(?:# )?", " ", text)
    return [flat[max(0, m.start() - 60) : m.end() + 60] for m in re.finditer(pattern, flat)]


def sources() -> Iterator[tuple[str, str]]:
    """Each module, template and script of the package."""
    for file in sorted(file for kind in ("py", "html", "js") for file in PACKAGE.rglob(f"*.{kind}")):
        yield str(file.relative_to(ROOT)), file.read_text()


def pages() -> Iterator[tuple[str, str]]:
    """Each page, and what of it is written by hand."""
    for page in sorted(PAGES):
        yield str(page.relative_to(ROOT)), page.read_text().partition(FROM_TESTS)[0]


@pytest.mark.parametrize("texts", [pages, sources], ids=["pages", "sources"])
def test_each_sentence_says_who_is_meant_and_each_thing_has_its_word(texts: type[Iterator[tuple[str, str]]]) -> None:
    looked_at = dict(texts())
    assert len(looked_at) > 60
    found = {where: told(text, WHO) for where, text in looked_at.items()}
    assert {where: what for where, what in found.items() if what} == {}
    for word, pattern in SYNONYMS.items():
        other = {where: told(text, pattern) for where, text in looked_at.items()}
        assert {where: what for where, what in other.items() if what} == {}, f"the word is {word}"


@pytest.mark.parametrize("what", UNREADABLE)
def test_pages_show_what_a_person_can_read(what: str) -> None:
    found = {where: told(text, UNREADABLE[what]) for where, text in pages()}
    assert {where: texts for where, texts in found.items() if texts} == {}


def test_it_sees_what_it_looks_for() -> None:
    for bad in ("Somebody acts", "# whatever\n# is", "a run\n# for real"):
        assert [p for p in (WHO, *SYNONYMS.values()) if told(bad, p)], bad
    assert told("waits 86400000 ms", UNREADABLE["a duration in milliseconds"])
    assert told("topic g9LiIua4STi… has", UNREADABLE["a cut id"])
