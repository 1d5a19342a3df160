# SPDX-License-Identifier: Apache-2.0
"""Configuration of the documentation site: `make docs`, or `sphinx-build -W --keep-going -n docs build/docs`."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

# The API reference imports Airflow, which makes its home and writes its configuration there: in no real one.
_home = tempfile.mkdtemp(prefix="rlmm-docs-")
atexit.register(shutil.rmtree, _home, ignore_errors=True)
os.environ |= {"AIRFLOW_HOME": _home, "AIRFLOW__CORE__UNIT_TEST_MODE": "True", "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}

from airflow_provider_rlmm import __version__  # noqa: E402  # the environment above must stand before

project = "airflow-provider-rlmm"
author = "the authors of airflow-provider-rlmm"
project_copyright = "the authors of airflow-provider-rlmm, Apache-2.0"
version = release = __version__

extensions = ["sphinx_click", "myst_parser", "sphinx.ext.autodoc"]
root_doc = "index"
language = "en"
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
# Pages come from the checkout or the source distribution alone: a build needs no network.
html_theme = "furo"
html_title = f"airflow-provider-rlmm {release}"
html_copy_source = False
html_show_sphinx = False

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True


def _exists(target: str) -> bool:
    """Tell whether something that a docstring refers to can be imported."""
    module, _, rest = target, "", ""
    while module:
        try:
            found: Any = import_module(module)
        except ImportError:
            module, _, name = module.rpartition(".")
            rest = f"{name}.{rest}" if rest else name
            continue
        for name in filter(None, rest.split(".")):
            # Fields of a class without a default are annotations only.
            if not hasattr(found, name) and name not in getattr(found, "__annotations__", {}):
                return False
            found = getattr(found, name, None)
        return True
    return False


def _without_a_page(app: Any, env: Any, node: Any, contnode: Any) -> Any:
    """Show a reference to what exists and has no entry here as text; one to what does not exist is a warning."""
    if node.get("refdomain") != "py":
        return None
    # Types of a signature bear the names that the type checker knows: references that a person wrote have this mark, or
    # are the error of a `:raises:`.
    if "refwarn" not in node and node["reftype"] != "exc":
        return contnode
    target = node.get("reftarget", "")
    module, cls = node.get("py:module"), node.get("py:class")
    # What a class raises may be raised by a class that it is made of.
    made_of = getattr(getattr(import_module(module), cls or "", None), "__mro__", ()) if module else ()
    scopes = (module, f"{module}.{cls}", *(base.__module__ for base in made_of))
    return contnode if any(map(_exists, [target, *(f"{scope}.{target}" for scope in (*scopes, "builtins"))])) else None


def setup(app: Any) -> None:
    """Connect what Sphinx is to call."""
    app.connect("missing-reference", _without_a_page)
