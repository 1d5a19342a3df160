# SPDX-License-Identifier: Apache-2.0
"""Numbers in messages and on pages agree with their nouns: what may be one is never called "1 segments"."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[3] / "airflow_provider_rlmm"
# Those that are no verbs, too; a size of one byte is a sign of damage, and its messages say which.
NOUNS = (
    "addresses|batches|characters|columns|copies|days|elements|entries|events|files|findings|folders|gaps|groups|ids|indexes"
    "|keys|markers|messages|notifiers|objects|offsets|orphans|partitions|pieces|prefixes|reasons|records|replicas|requests"
    "|rows|segments|snapshots|tasks|things|times|topics|values"
)
# Words behind which the noun is none of the number's.
OTHERS = (
    "a|and|are|at|be|below|begins|behind|by|cannot|claim|claims|does|ends|for|from|had|has|have|hold|holds|in|is|keeps|knows"
    "|lacks|leaves|may|must|names|no|not|of|on|or|other|says|stands|takes|than|that|the|to|under|was|were|where|when|with|write"
)
PLURAL = re.compile(rf"^ (?:(?!(?:{OTHERS})\b)[a-z-]+ ){{0,3}}(?:{NOUNS})\b")
ON_PAGE = re.compile(rf"\| number \}}\}}(?:</\w+>)* (?:(?!(?:{OTHERS})\b)[a-z-]+ ){{0,3}}(?:{NOUNS})\b")
LOGGED = re.compile(rf"%d (?:(?!(?:{OTHERS})\b)[a-z-]+ ){{0,3}}(?:{NOUNS})\b")
FIXED = re.compile(r"[A-Z_.]+(?: // [A-Z_]+)?")
"""A constant has one value, and its author knows it."""
NO_NUMBERS = ("_partitions(topic, short)", "_partitions(topic, behind)", "form")
"""They end in words of their own: partitions that have, how many."""


def disagreeing(source: str) -> Iterator[str]:
    """Yield each number of a module behind which a plural stands whatever the number is."""
    for text in ast.walk(ast.parse(source)):
        if not isinstance(text, ast.JoinedStr):
            continue
        for value, behind in zip(text.values, text.values[1:], strict=False):
            if not (isinstance(value, ast.FormattedValue) and isinstance(behind, ast.Constant)):
                continue
            said = ast.unparse(value.value)
            agrees = FIXED.fullmatch(said) or said in NO_NUMBERS or re.match(r"(?:number_of|agreeing)\(", said)
            if not agrees and PLURAL.match(behind.value):
                yield f"{said}{behind.value}"


def test_numbers_in_messages_agree_with_their_nouns() -> None:
    found = {str(file): list(disagreeing(file.read_text())) for file in PACKAGE.rglob("*.py")}
    assert len(found) > 300
    assert {file: texts for file, texts in found.items() if texts} == {}


def test_numbers_on_pages_agree_with_their_nouns() -> None:
    found = {str(file): ON_PAGE.findall(file.read_text()) for file in PACKAGE.rglob("*.html")}
    assert len(found) >= 20
    assert {file: texts for file, texts in found.items() if texts} == {}


def test_numbers_in_the_logs_of_tasks_agree_with_their_nouns() -> None:
    found = {file.name: LOGGED.findall(file.read_text()) for file in (PACKAGE / "operators").glob("*.py")}
    assert len(found) > 30
    assert {file: texts for file, texts in found.items() if texts} == {}


def test_it_sees_what_it_looks_for() -> None:
    for bad in ('f"{n:,} segments are left"', 'f"{len(x)} more user partitions"', 'f"{n} "\nf"x {m} topics"'):
        assert list(disagreeing(f"x = ({bad})")), bad
    for good in ('f"{_MOST} topics"', 'f"{n} is in 3 topics"', "f\"{number_of(n, 'topic')} of segments\""):
        assert not list(disagreeing(f"x = {good}")), good
    assert LOGGED.search('"%s: %d user partitions"')
    assert ON_PAGE.search("{{ t.objects | number }} objects")
    assert not ON_PAGE.search('{{ n | counted("object") }} of objects')
