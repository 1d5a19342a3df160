# SPDX-License-Identifier: Apache-2.0
"""The README as a package index shows it: pages that it links to are not there, so their links become words."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_RELATIVE_LINK = re.compile(r"\[([^\]]+)\]\((?!https?://|#)[^)]+\)")
_WHERE = "\nThe pages that this text names lie in the folder `docs` of the source distribution.\n"


def without_relative_links(readme: str) -> str:
    """
    Return a README that reads the same where none of the repository's other files is.

    :param readme: its text, in Markdown.
    """
    return _RELATIVE_LINK.sub(r"\1", readme) + _WHERE


class PackageIndexReadme(MetadataHookInterface):
    """Gives the package its long description."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the README of the package that is built."""
        readme = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": without_relative_links(readme)}
