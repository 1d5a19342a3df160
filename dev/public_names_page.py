# SPDX-License-Identifier: Apache-2.0
"""
Makes ``docs/public-names.md`` from the code: ``python -m dev.public_names_page``.

A module with ``__all__`` is public, and what it names is. A unit test compares the page with what this makes, so it cannot be
stale.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "public-names.md"
PACKAGE = "airflow_provider_rlmm"

FLOORS = {
    "For DAGs": "operators task_groups sensors triggers assets notifications hooks dag_factory resources settings overview",
    "For Spark jobs of one's own": "data_frames",
    "What a feature does, without Airflow": "features",
    "Records, log, segments, storage, world": "core",
    "Kafka's RemoteLogMetadataManager as a library": "library",
}
"""Heading → the packages and modules below it; the order of the page."""

HEAD = """\
# Public names

What other programs may rely on. Everything else may move: names with an underscore, names that a module's `__all__` does not
have, and modules without one. This page is made from the code (`python -m dev.public_names_page`), and a test fails where the
two differ. The documentation, the examples and the shipped DAG files import no other names. The [API reference](api/index.md)
describes them; [operators](operators/index.md) and [hooks](hooks.md) have pages with examples.
"""

_ROLE = re.compile(r":\w+:`~?(?:[\w.]*\.)?(\w+)`")


def public_names() -> Iterator[tuple[str, str]]:
    """Yield module and name of all that is public, module by module."""
    for path in sorted((ROOT / PACKAGE).rglob("*.py")):
        text = path.read_text()
        for node in ast.parse(text).body if "__all__" in text else ():
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
                yield from ((module, name) for name in ast.literal_eval(node.value))


def page() -> str:
    """Return the text of the page."""
    found = list(public_names())
    parts = [HEAD]
    for heading, floors in FLOORS.items():
        parts += [f"\n## {heading}\n\n", "| module | name | what it is |\n|---|---|---|\n"]
        for floor in floors.split():
            at = f"{PACKAGE}.{floor}"
            here = [(module, name) for module, name in found if module == at or module.startswith(f"{at}.")]
            parts += [f"| `{module}` | `{name}` | {what_it_is(module, name)} |\n" for module, name in here]
    return "".join(parts)


def what_it_is(module: str, name: str) -> str:
    """
    Return the first sentence of a name's docstring.

    :param module: where it lies.
    :param name: the name.
    """
    text = inspect.getdoc(getattr(import_module(module), name)) or ""
    first = " ".join(text.split("\n\n")[0].split()).replace("|", "\\|")
    return _ROLE.sub(r"`\1`", first).replace("``", "`")


if __name__ == "__main__":
    PAGE.write_text(page())
