# SPDX-License-Identifier: Apache-2.0
"""The pages of the documentation, and the examples on them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).parents[3] / "docs"
_FOLDERS = ("operators", "dags", "how-to")
EXAMPLE_PAGES = sorted(
    [
        *(DOCS / f"{name}.md" for name in ("connection", "hooks", "reports")),
        *(page for name in _FOLDERS for page in (DOCS / name).glob("*.md")),
    ]
)

_FENCE = re.compile(r"^( *)```(\w+)\n(.*?)^\1```\n", re.MULTILINE | re.DOTALL)
_DEFINES = re.compile(r"It defines the DAG `(\w+)` with the tasks? (`[^`]*`(?:,\s+`[^`]*`)*)\.")


@dataclass(frozen=True)
class Example:
    """A block of a page, with the section that it stands in and the text up to the next block."""

    page: str
    section: str
    language: str
    text: str
    after: str

    def __str__(self) -> str:
        """Return a name for a test."""
        return f"{self.page}-{self.section}".replace(" ", "-")

    @property
    def is_dag(self) -> bool:
        return self.language == "python" and re.search(r"^with DAG\(", self.text, re.MULTILINE) is not None

    @property
    def says(self) -> tuple[str, list[str]]:
        """The DAG that the page says this defines, and its tasks in their order."""
        said = _DEFINES.search(self.after)
        assert said is not None, f"{self}: the page does not say which DAG and tasks this defines"
        return said[1], re.findall(r"`([\w.]+)`", said[2])


def _examples_of(page: Path) -> Iterator[Example]:
    text = page.read_text()
    blocks = list(_FENCE.finditer(text))
    for number, block in enumerate(blocks):
        heading = re.findall(r"^#+ (.+)$", _FENCE.sub("", text[: block.start()]), re.MULTILINE)[-1]
        end = blocks[number + 1].start() if number + 1 < len(blocks) else len(text)
        indent = len(block[1])
        code = "".join(line[indent:] for line in block[3].splitlines(keepends=True))
        yield Example(page.relative_to(DOCS).as_posix(), heading, block[2], code, text[block.end() : end])


EXAMPLES = [example for page in EXAMPLE_PAGES for example in _examples_of(page)]
"""Every block of the pages that show how to do something."""


def output_of(program: Example) -> str | None:
    """
    Return the output that a page shows for a program, ``None`` where it shows none.

    :param program: the block.
    """
    blocks = [e for e in EXAMPLES if e.page == program.page]
    following = blocks[blocks.index(program) + 1 :]
    return following[0].text if following and "It prints" in program.after and following[0].language == "text" else None
