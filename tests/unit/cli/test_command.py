# SPDX-License-Identifier: Apache-2.0
"""Exit codes, help, what a pipe gets, and what is never written down."""

from __future__ import annotations

import io
import json
import logging
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import UUID

import click
import pytest

from airflow_provider_rlmm.cli import main as command
from airflow_provider_rlmm.cli import reading
from airflow_provider_rlmm.cli.options import Invocation
from airflow_provider_rlmm.cli.output import Output, working
from airflow_provider_rlmm.cli.own_process import INTERRUPTED
from airflow_provider_rlmm.cli.runs import begin, read_acknowledgements
from airflow_provider_rlmm.core.base.errors import ConfigurationError, EventLogUnavailableError
from airflow_provider_rlmm.core.base.quoting import human_bytes
from airflow_provider_rlmm.core.log.kafka import listening
from airflow_provider_rlmm.core.log.topic_state import Progress
from airflow_provider_rlmm.core.plans.guards import CleanerLimits
from airflow_provider_rlmm.core.records.records import RemotePartitionDeleteMetadata, TopicIdPartition, kafka_uuid_str
from airflow_provider_rlmm.core.records.serde import serialize
from airflow_provider_rlmm.core.records.states import RemotePartitionDeleteState
from airflow_provider_rlmm.core.runs.access import RemoteLogAccess


def raiser(error: BaseException) -> Any:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    return fail


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (EventLogUnavailableError("no answer\nat all"), 3, "rlmm: no answer"),
        (ConfigurationError("layout is wrong"), 1, "rlmm: layout is wrong"),
        (PermissionError(13, "Permission denied", "/work"), 1, "rlmm: Permission denied: /work"),
        (KeyboardInterrupt(), 130, "rlmm: interrupted"),
        (click.UsageError("no such thing"), 2, "no such thing"),
    ],
)
def test_each_end_has_its_code_and_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: BaseException, code: int, said: str
) -> None:
    monkeypatch.setattr(reading, "opened_session", raiser(error))
    assert command.run(["topics", "--bootstrap-server", "a:1"]) == code
    captured = capsys.readouterr()
    assert said in captured.err
    if not isinstance(error, click.ClickException):
        assert captured.err.strip().count("\n") == 0
    assert captured.out == ""


@pytest.mark.parametrize("error", [SystemError("returned NULL without setting an exception"), ConfigurationError("x")])
def test_an_interrupt_that_a_client_made_another_error_of_is_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception
) -> None:
    """librdkafka's and obstore's clients are written in other languages."""

    def lose(*_: Any, **__: Any) -> None:
        with suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        raise error

    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(reading, "opened_session", lose)
    assert command.run(["topics", "--bootstrap-server", "a:1"]) == 130
    assert "rlmm: interrupted" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGINT) is before
    monkeypatch.setattr(reading, "opened_session", raiser(error))
    if isinstance(error, SystemError):
        with pytest.raises(SystemError):
            command.run(["topics", "--bootstrap-server", "a:1"])
    else:
        assert command.run(["topics", "--bootstrap-server", "a:1"]) == 1


def test_an_interrupt_that_fell_into_the_end_of_an_object_ends_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Ending:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGINT)

    def lose(*_: Any, **__: Any) -> None:
        hook = sys.unraisablehook
        Ending()
        time.sleep(5)
        raise AssertionError(f"it was lost, past {hook}")

    monkeypatch.setattr(reading, "opened_session", lose)
    hook, started = sys.unraisablehook, time.monotonic()
    assert command.run(["topics", "--bootstrap-server", "a:1"]) == 130
    # The terminal has shown ^C: its line is ended first.
    assert capsys.readouterr().err.splitlines() == ["", f"rlmm: {INTERRUPTED}"]
    assert time.monotonic() - started < 4
    assert sys.unraisablehook is hook


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["import", "end"])
def test_an_interrupt_before_and_after_the_command_is_one_line(moment: str, tmp_path: Path) -> None:
    ready = {
        "import": "class Slow:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name.endswith('cli.main'): print('now', flush=True); time.sleep(10)\n"
        "sys.meta_path.insert(0, Slow())\n",
        "end": "import atexit\natexit.register(lambda: (print('now', flush=True), time.sleep(10)))\n",
    }
    program = (
        "import sys, time\nfrom airflow_provider_rlmm.cli import start\n"
        f"sys.argv = ['rlmm', 'decode', '--help']\n{ready[moment]}start.main()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.strip() == "now":
                break
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=20)
    assert (process.returncode, said.splitlines()) == (130, [f"rlmm: {INTERRUPTED}"])


def topics_of(address: str, tmp_path: Path) -> list[str]:
    nothing = tmp_path / "config.toml"
    nothing.touch()
    return ["topics", "--bootstrap-server", address, "--work-dir", str(tmp_path), "--config", str(nothing)]


def test_nobody_listens_and_the_command_ends_at_once(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    started = time.monotonic()

    assert command.run(topics_of("127.0.0.1:1", tmp_path)) == 3

    assert "brokers 127.0.0.1:1: no answer came" in capsys.readouterr().err
    assert time.monotonic() - started < 10, "a broker that says nothing is waited for 15 seconds"


@pytest.mark.parametrize("options", [[], ["--verbose"]])
def test_silence_is_said_once_while_it_is_waited_for(
    options: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(listening, "SAY_AFTER_S", 0.0)
    monkeypatch.setattr(RemoteLogAccess.get_cluster, "__defaults__", (0.5,))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        assert command.run([*options, *topics_of(address, tmp_path)]) == 3

    assert (
        capsys.readouterr().err.count(f"no answer for 0 s from {address}, which takes connections and says nothing")
        == 1
    )


def test_help_teaches_and_every_command_has_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.run(["--help"]) == 0
    text = capsys.readouterr().out
    assert "rlmm orphans --bootstrap-server broker:9092" in text
    for name in command.rlmm.commands:
        assert f"  {name} " in text
        assert command.run([name, "--help"]) == 0
        assert "Usage: rlmm " + name in capsys.readouterr().out
    assert set(command.rlmm.commands) == {
        "check", "topics", "why", "init", "segments", "events", "decode", "trail", "doctor", "orphans", "plan", "clean",
        "snapshot", "scrub", "verify", "survey", "first-aid", "recover", "read", "find-offset", "retention", "what-if",
        "archive", "restore", "copy", "cluster-state", "spark-files", "stop",
    }  # fmt: skip


@pytest.mark.slow
def test_nothing_of_airflow_or_spark_is_imported_and_nothing_heavy_for_help() -> None:
    heavy = ("airflow", "pyspark", "pandas", "confluent_kafka", "pyarrow", "numpy", "obstore", "rich", "importlib.abc")
    program = (
        "import sys; from airflow_provider_rlmm.cli.main import run; run(['--help']); "
        f"print([name for name in {heavy!r} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stderr.strip() == "[]"


@pytest.mark.slow
def test_the_process_of_the_command_does_without_pandas() -> None:
    """pyarrow would import it for the first value of Python's that it is given. Garbage is looked for seldom, too."""
    program = (
        "import sys, pyarrow as pa; from airflow_provider_rlmm.cli import start; sys.argv = ['rlmm', '--version']\n"
        "try: start.main()\n"
        "except SystemExit: pass\n"
        "assert pa.array([1.0, None]).null_count == 1\n"
        "assert 'pandas' not in sys.modules\n"
        "import gc; assert gc.get_threshold()[0] == 100_000\n"
        "sys.meta_path.pop(0); import pandas"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)


@pytest.mark.slow
def test_processes_of_the_command_take_no_module_out_of_the_users_folder(tmp_path: Path) -> None:
    folder, script = tmp_path / "folder", tmp_path / "bin" / "program"
    folder.mkdir()
    script.parent.mkdir()
    (folder / "pickle.py").write_text("raise SystemExit('taken')")
    script.write_text(
        "from multiprocessing import get_context\n"
        "from airflow_provider_rlmm.cli.own_process import begin_process\n"
        "if __name__ == '__main__':\n"
        "    begin_process()\n"
        "    started = get_context('spawn').Process(target=print, args=('done',))\n"
        "    started.start(); started.join(); raise SystemExit(started.exitcode)"
    )
    done = subprocess.run([sys.executable, str(script)], cwd=folder, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


# -- decode ----------------------------------------------------------------------------------------------------------

GONE = TopicIdPartition(UUID(int=77), "gone", 0)
EVENT = RemotePartitionDeleteMetadata(GONE, RemotePartitionDeleteState.DELETE_PARTITION_MARKED, 5, -1)
DECODED = {
    "event": "RemotePartitionDeleteMetadata",
    "state": "DELETE_PARTITION_MARKED",
    "topic_id": kafka_uuid_str(GONE.topic_id),
    "topic": "gone",
    "partition": 0,
    "broker_id": -1,
    "event_timestamp_ms": 5,
}


def test_a_value_is_decoded_however_it_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import base64

    value = serialize(EVENT)
    file = tmp_path / "value"
    file.write_bytes(value)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(value)))
    for given in (value.hex(), base64.b64encode(value).decode(), f"@{file}", "-"):
        assert command.run(["decode", given, "--json"]) == 0
        assert json.loads(capsys.readouterr().out) == DECODED
    assert command.run(["decode", value.hex()]) == 0
    assert "DELETE_PARTITION_MARKED" in capsys.readouterr().out


def test_what_no_broker_could_read_is_said_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.run(["decode", "00ff", "--json"]) == 1
    captured = capsys.readouterr()
    assert json.loads(captured.out)["error"]["code"] == "MALFORMED"
    assert "RemoteLogMetadataSerde" in captured.err


# -- output ----------------------------------------------------------------------------------------------------------


def test_a_pipe_gets_every_cell_whole(capsys: pytest.CaptureFixture[str]) -> None:
    long = "x" * 300
    Output(as_json=False).rows([{"a": long, "n_bytes": 2048, "partition": 1234, "count": 1234}], {
        "a": "a", "n_bytes": "size", "partition": "partition", "count": "count",
    })  # fmt: skip
    text = capsys.readouterr().out
    assert long in text
    assert "2.0 KiB" in text
    assert "1234" in text
    assert "1,234" in text


def test_what_others_have_named_cannot_paint_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    Output(as_json=False).rows([{"topic": "a\x1b[31m[bold]b"}], {"topic": "topic"})
    text = capsys.readouterr().out
    assert "\x1b" not in text
    assert "a\\x1b[31m[bold]b" in text, "it is shown, and not left out as the colours of a pipe are"


def test_no_rows_are_said_to_people_and_are_nothing_to_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    Output(as_json=False).rows([], {"a": "a"}, "orphans")
    assert capsys.readouterr().out == "orphans: none\n"
    Output(as_json=True).rows([], {"a": "a"}, "orphans")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("size", "words"), [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (5 * 2**40, "5.0 TiB"), (2**60, "1024.0 PiB")]
)
def test_sizes(size: int, words: str) -> None:
    assert human_bytes(size) == words


# -- who may write ----------------------------------------------------------------------------------------------------


def invocation(**options: str) -> Invocation:
    return Invocation({"bootstrap_server": "a:1", **options}, {}, Output(as_json=False))


@pytest.mark.parametrize("execute", [True, False])
def test_a_dry_run_may_write_nothing(monkeypatch: pytest.MonkeyPatch, execute: bool) -> None:
    given: dict[str, Any] = {}
    monkeypatch.setattr(
        "airflow_provider_rlmm.core.runs.cleaner_session.cleaner_session",
        lambda access, *_, **options: given.update(access=access, **options),
    )
    run = begin(invocation(expected_cluster_id="c"), "clean", execute=execute)
    with working() as shown:
        run.session(CleanerLimits(), shown)
    assert given["access"].get_connection_settings().allow_writes is execute
    assert given["dry_run"] is not execute
    assert run.uri == f"{run.work_uri}/{run.name}"
    assert run.name.startswith("clean.")


def test_a_hold_that_is_added_to_the_file_counts_from_then_on(tmp_path: Path) -> None:
    file = tmp_path / "rlmm.toml"
    file.write_text('hold = "billing"\n')
    access = invocation(config=str(file)).access()
    file.write_text('hold = "billing, audit-*"\n')
    assert access.read_connection_settings().hold == "billing, audit-*"
    assert access.get_connection_settings().hold == "billing"


def test_whoever_deletes_names_the_cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The id of a configuration file, which is there for every run, does not do."""
    file = tmp_path / "rlmm.toml"
    file.write_text('expected_cluster_id = "of the file"\n')
    with pytest.raises(click.UsageError, match="--execute needs --cluster-id"):
        begin(invocation(config=str(file)), "clean", execute=True)
    monkeypatch.setattr("airflow_provider_rlmm.cli.runs.sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr(click, "prompt", lambda *_, **__: "typed")
    run = begin(invocation(config=str(file)), "clean", execute=True)
    settings = run.invocation.access(allow_writes=run.execute).get_connection_settings()
    assert (settings.expected_cluster_id, settings.allow_writes) == ("typed", True)


def test_acknowledgements_come_from_a_file(tmp_path: Path) -> None:
    assert read_acknowledgements(None, 0).problems == ()
    with pytest.raises(ConfigurationError, match=r"--acknowledgements '.*none' cannot be read"):
        read_acknowledgements(str(tmp_path / "none"), 0)
    file = tmp_path / "known.json"
    file.write_text("{}")
    (problem,) = read_acknowledgements(str(file), 0).problems
    assert "it is no list" in problem.why


# -- progress ---------------------------------------------------------------------------------------------------------


def test_a_terminal_sees_how_far_the_reading_is_and_what_comes_next(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "160")
    with working() as shown:
        shown.on_read(Progress(500, 1_500))
        logging.getLogger("airflow_provider_rlmm.anything").warning("3 of 5 segments [deleted]\x1b]0;title")
        shown._progress.refresh()
    said = capsys.readouterr().err
    assert "reading the metadata topic" in said
    assert "500/2000" in said
    assert "3 of 5 segments [deleted]" in said
    assert "\x1b]0" not in said


def test_a_pipe_sees_no_progress(capsys: pytest.CaptureFixture[str]) -> None:
    with working() as shown:
        shown.on_read(Progress(500, 1_500))
        shown.say("working")
        shown.on_read(Progress(2_000, 0))
    assert capsys.readouterr() == ("", "")
