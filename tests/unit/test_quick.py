# SPDX-License-Identifier: Apache-2.0
"""The choice of ``make quick``: which tests it runs, and what it lints."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from dev.quick import FACE, ROOT, changed_files, commands, dealt, quick_tests


def written(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def chosen(root: Path) -> list[str]:
    return [path.name for path in quick_tests(root, ["tests"])[0]]


ONE = "def test_one(): pass\n"


@pytest.mark.parametrize(
    ("files", "quick"),
    [
        ({"tests/test_a.py": f"import json\n{ONE}"}, True),
        ({"tests/test_a.py": f"import airflow\n{ONE}"}, False),
        ({"tests/test_a.py": f"from airflow.sdk import DAG\n{ONE}"}, False),
        ({"tests/test_a.py": f"import airflowish\n{ONE}"}, True),
        ({"tests/test_a.py": "def test_one():\n    import airflow\n"}, False),
        ({"tests/test_a.py": f"from airflow_provider_rlmm.operators.scrub import X\n{ONE}"}, False),
        ({"tests/test_a.py": f"from airflow_provider_rlmm import settings\n{ONE}"}, False),
        ({"tests/test_a.py": f"from airflow_provider_rlmm.core.runs import settings\n{ONE}"}, True),
        ({"tests/test_a.py": ONE, "tests/conftest.py": "import airflow"}, False),
        ({"tests/test_a.py": f"from tests import b\n{ONE}", "tests/b.py": "import airflow"}, False),
        (
            {
                "tests/test_a.py": f"import tests.b\n{ONE}",
                "tests/b.py": "from dev.c import d",
                "dev/c.py": "import dags",
            },
            False,
        ),
        ({"tests/test_a.py": f"import tests.b\n{ONE}", "tests/b/__init__.py": "import airflow"}, False),
        ({"tests/test_a.py": f"import tests.b\n{ONE}", "tests/b.py": "import tests.test_a"}, True),
        ({"tests/test_a.py": "import pytest\npytestmark = [pytest.mark.slow]\n" + ONE}, False),
        ({"tests/test_a.py": f"import pytest\n@pytest.mark.slow\n{ONE}"}, False),
        ({"tests/test_a.py": f"import pytest\n@pytest.mark.slow\n{ONE}\n{ONE}"}, True),
    ],
)
def test_files_whose_tests_need_airflow_or_are_all_slow_are_left_out(
    tmp_path: Path, files: dict[str, str], quick: bool
) -> None:
    assert chosen(written(tmp_path, files)) == ["test_a.py"] * quick


def test_the_share_counts_functions_and_methods(tmp_path: Path) -> None:
    slow = "@pytest.mark.slow\n"
    cases = "@pytest.mark.parametrize('x', [1, pytest.param(2, marks=pytest.mark.slow)])\n"
    methods = (
        "    def test_a(self): pass\n    @pytest.mark.slow\n    def test_b(self): pass\n    def help(self): pass\n"
    )
    text = f"{ONE}{slow}{ONE}{cases}{ONE}class TestIt:\n{methods}{slow}class TestSlow:\n{methods}def help(): pass\n"
    _, share = quick_tests(
        written(tmp_path, {"tests/test_a.py": text, "tests/test_b.py": f"import airflow\n{ONE}"}), ["tests"]
    )
    assert (share.quick, share.airflow, share.slow) == (3, 1, 4)
    assert str(share) == "3 of 8 test functions (37 %): 1 import Airflow, 4 are slow"


def test_every_room_of_the_face_is_there() -> None:
    package = ROOT / "airflow_provider_rlmm"
    assert [room for room in FACE if not (package / room).is_dir() and not (package / f"{room}.py").is_file()] == []


def test_what_differs_from_main_is_linted_committed_or_not(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=e", *arguments], cwd=tmp_path, check=True)

    git("init", "-q", "-b", "main")
    written(tmp_path, dict.fromkeys(("same.py", "changed.py", "gone.py", "page.md"), "one"))
    git("add", ".")
    git("commit", "-q", "-m", "one")
    assert changed_files(tmp_path) == []
    git("switch", "-q", "-c", "work")
    written(tmp_path, {"committed.py": "two"})
    git("add", ".")
    git("commit", "-q", "-m", "two")
    written(tmp_path, {"changed.py": "two", "page.md": "two", "new place/new.py": "two"})
    (tmp_path / "gone.py").unlink()
    assert changed_files(tmp_path) == ["changed.py", "committed.py", "new place/new.py"]
    git("branch", "-q", "-D", "main")
    assert changed_files(tmp_path) == ["changed.py", "new place/new.py"], "a clone without main"


def test_each_file_of_tests_runs_once_and_nothing_is_linted_where_nothing_changed() -> None:
    files = [Path(f"test_{name}.py") for name in "abcde"]
    run = commands([], files, {})
    assert not {"ruff", "format", "mypy"} & run.keys()
    assert sorted(word for command in run.values() for word in command if word.startswith("test_")) == list(
        map(str, files)
    )
    assert {"ruff", "format", "mypy"} < commands(["a.py"], files, {}).keys()


def test_files_are_dealt_so_that_both_processes_take_about_as_long() -> None:
    files = [ROOT / f"test_{name}.py" for name in "abcdef"]
    took = {"test_a.py": 9.0, "test_b.py": 1.0, "test_c.py": 2.0, "test_d.py": 3.0, "test_e.py": 3.0}
    hands = dealt(files, took)
    assert sorted(file for hand in hands for file in hand) == files
    # One that nobody has seen yet counts as one of the middle, 3 s.
    assert sorted(sum(took.get(file.name, 3.0) for file in hand) for hand in hands) == [10.0, 11.0]
    assert sorted(map(len, dealt(files, {}))) == [3, 3]
