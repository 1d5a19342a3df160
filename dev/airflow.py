# SPDX-License-Identifier: Apache-2.0
"""
A real Airflow of its own on this machine: SQLite, LocalExecutor, everything on 127.0.0.1, gone when the block ends.

The components are started one by one and not by ``airflow standalone``: that one lets the log servers of scheduler and
triggerer listen on every interface and leaves its children behind when it is ended.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
import shutil
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, Any
from urllib.parse import quote

import httpx
import psutil

from dev.patience import Patience

COMPONENTS = ("api-server", "scheduler", "dag-processor", "triggerer")
FINISHED = frozenset({"success", "failed"})
IN_BETWEEN = frozenset({"none", "scheduled", "queued"})
"""States in which a task instance waits for its turn; they pass without a line of progress."""
LOCAL_SETTINGS = Path(__file__).with_name("airflow_local_settings.py")
LOG_NOISE = frozenset(
    {"timestamp", "event", "level", "logger", "filename", "lineno"}
    | {"ti", "ti_id", "dag_id", "run_id", "task_id", "map_index", "try_number"}
)
"""Fields of a log entry that say nothing to somebody who asked for the log of one task instance."""


class LocalAirflowError(RuntimeError):
    """Airflow did not start, or answered with an error; the message ends with what its log says."""


class LocalAirflow:
    """
    An Airflow with all four components as processes of this one.

    The user ``admin`` has the password :attr:`password`, the user ``viewer`` may only look. Scheduled runs are off unless
    ``scheduled`` is given: a DAG runs when it is triggered or when an asset that it waits for changes.

    :param home: becomes AIRFLOW_HOME; created if missing, and fresh: an earlier database cannot be read with this one's
        keys. Logs stay there: ``components/*.log`` and ``logs/``.
    :param dags_folder: folder of DAG files.
    :param connections: connection id → JSON document as in ``AIRFLOW_CONN_…`` variables (``conn_type``, ``host``,
        ``extra``, …). They are stored in Airflow's database, so that they show in its UI.
    :param env: further environment variables of the components; they win over the ones set here.
    :param scheduled: whether DAGs that are not paused run by their schedules, too.
    :param progress: receives one line per step and per change of a task instance's state.
    """

    def __init__(
        self,
        home: Path,
        *,
        dags_folder: Path,
        connections: Mapping[str, str],
        env: Mapping[str, str] | None = None,
        scheduled: bool = False,
        progress: Callable[[str], None] = print,
    ) -> None:
        self.home = home.resolve()
        self.port = _free_port()
        self.password = secrets.token_urlsafe(16)
        self._viewer_password = secrets.token_urlsafe(16)
        self._connections = dict(connections)
        self._progress = progress
        self._env = self._environment(dags_folder.resolve(), scheduled) | dict(env or {})
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._client: httpx.Client | None = None

    @property
    def url(self) -> str:
        """Address of UI and API, without a slash at the end."""
        return f"http://127.0.0.1:{self.port}"

    # -- life ------------------------------------------------------------------------------------------------------

    def __enter__(self) -> LocalAirflow:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def start(self, timeout: float = 120.0) -> None:
        """
        Migrate the database, start the components and return when all are healthy.

        :param timeout: seconds until the last component must be healthy.
        :raises LocalAirflowError: if one ends or is too late; with the tail of its log.
        """
        started = time.monotonic()
        if (self.home / "airflow.db").exists():
            raise LocalAirflowError(
                f"{self.home} holds the database of an earlier Airflow: remove it or take another home"
            )
        for folder in ("components", "config", "plugins"):
            (self.home / folder).mkdir(parents=True, exist_ok=True)
        shutil.copy(LOCAL_SETTINGS, self.home / "config")
        passwords = {"admin": self.password, "viewer": self._viewer_password}
        password_file = self.home / "passwords.json"
        password_file.touch(mode=0o600)
        password_file.write_text(json.dumps(passwords))
        self.cli("db", "migrate")
        flags = {"api-server": ["--host", "127.0.0.1", "--port", str(self.port)], "dag-processor": []}
        for name in COMPONENTS:
            self._start_component(name, flags.get(name, ["--skip-serve-logs"]))
        patience = Patience(timeout)
        while (unhealthy := self._unhealthy()) and not patience.over():
            time.sleep(0.25)
        if unhealthy:
            raise LocalAirflowError(f"Airflow is not healthy after {timeout:.0f} s: {self._tails(unhealthy)}")
        self._client = self.client()
        for conn_id, document in self._connections.items():
            self.add_connection(conn_id, json.loads(document))
        self._progress(f"Airflow is healthy after {time.monotonic() - started:.1f} s: {self.url}")

    def stop(self, timeout: float = 20.0) -> None:
        """
        End all components and whatever they started; killed if they do not end in time.

        :param timeout: seconds they have for an orderly end.
        :raises LocalAirflowError: if a process survives.
        """
        if self._client is not None:
            self._client.close()
            self._client = None
        # The components' children make process groups of their own, so the group is not enough: remember them all now.
        family = self.processes()
        for process in self._processes.values():
            process.terminate()
        _, alive = psutil.wait_procs(_unique(family, self.processes()), timeout=timeout)
        for survivor in _unique(alive, self.processes()):
            with _gone_is_fine():
                survivor.kill()
        _, alive = psutil.wait_procs(_unique(alive, self.processes()), timeout=10)
        for process in self._processes.values():
            process.wait(timeout=10)
        self._processes.clear()
        if alive:
            raise LocalAirflowError(f"processes of Airflow that could not be ended: {[p.pid for p in alive]}")

    def processes(self) -> list[psutil.Process]:
        """Return the components and whatever they have started that still runs."""
        sessions = {process.pid for process in self._processes.values()}
        family: list[psutil.Process] = []
        for pid in psutil.pids():
            with _gone_is_fine():
                process = psutil.Process(pid)
                if os.getsid(pid) in sessions or sessions.intersection(p.pid for p in process.parents()):
                    family.append(process)
        return family

    def cli(self, *arguments: str, timeout: float = 900.0) -> str:
        """
        Run ``airflow <arguments>`` in this Airflow's environment.

        :param arguments: words of the command line.
        :param timeout: seconds.
        :return: its standard output.
        :raises LocalAirflowError: if it fails.
        """
        done = subprocess.run(
            [sys.executable, "-m", "airflow", *arguments],
            env=self._env, cwd=self.home, capture_output=True, text=True, timeout=timeout, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            tail = "\n".join((done.stdout + done.stderr).splitlines()[-30:])
            raise LocalAirflowError(f"airflow {' '.join(arguments)} failed ({done.returncode}):\n{tail}")
        return done.stdout

    def password_of(self, user: str) -> str:
        """
        Return the password of a user.

        :param user: ``admin`` or ``viewer``.
        """
        return {"admin": self.password, "viewer": self._viewer_password}[user]

    # -- REST API ---------------------------------------------------------------------------------------------------

    def client(self, user: str = "admin") -> httpx.Client:
        """
        Log in and return an HTTP client that carries the token; close it when done.

        :param user: ``admin`` or ``viewer``.
        """
        password = self.password_of(user)
        answer = httpx.post(f"{self.url}/auth/token", json={"username": user, "password": password}, timeout=30)
        token = _checked(answer)["access_token"]
        return httpx.Client(base_url=self.url, headers={"Authorization": f"Bearer {token}"}, timeout=60)

    def get(self, path: str, **params: Any) -> Any:
        """
        GET from the REST API, version 2.

        :param path: below ``/api/v2``, with the leading slash.
        :param params: query parameters.
        :return: the JSON answer.
        :raises LocalAirflowError: for any other status than success.
        """
        return self._call("GET", path, params=params)

    def add_connection(self, conn_id: str, document: Mapping[str, Any]) -> None:
        """
        Store a connection in Airflow's database.

        :param conn_id: its id.
        :param document: ``conn_type``, ``host``, ``extra`` and so on; ``extra`` as an object or as its JSON text.
        """
        body = {"connection_id": conn_id, **document}
        if not isinstance(body.get("extra", ""), str):
            body["extra"] = json.dumps(body["extra"])
        self._call("POST", "/connections", json=body)

    def set_variable(self, key: str, value: str | None) -> None:
        """
        Store a variable in Airflow's database.

        :param key: its name.
        :param value: its text, ``None`` to delete it.
        """
        if value is None:
            self._call("DELETE", f"/variables/{_quoted(key)}")
        else:
            self._call("POST", "/variables", json={"key": key, "value": value})

    def unpause(self, dag_id: str, timeout: float = 120.0) -> None:
        """
        Let a DAG run, as soon as the DAG processor has found it.

        :param dag_id: the DAG.
        :param timeout: seconds to wait for the DAG processor.
        :raises LocalAirflowError: if the DAG does not appear; with all import errors.
        """
        patience = Patience(timeout)
        while not any(dag["dag_id"] == dag_id for dag in self.get("/dags", limit=100)["dags"]):
            self._alive()
            errors = [f"{e['filename']}:\n{e['stack_trace']}" for e in self.get("/importErrors")["import_errors"]]
            if errors or patience.over():
                raise LocalAirflowError("\n".join([f"the DAG {dag_id} did not appear", *errors]))
            time.sleep(0.5)
        self._call("PATCH", f"/dags/{_quoted(dag_id)}", json={"is_paused": False})

    def pause(self, dag_id: str) -> None:
        """
        Let a DAG begin no further run.

        :param dag_id: the DAG.
        """
        self._call("PATCH", f"/dags/{_quoted(dag_id)}", json={"is_paused": True})

    def trigger(self, dag_id: str, conf: Mapping[str, Any] | None = None) -> str:
        """
        Unpause a DAG and start a run of it.

        :param dag_id: the DAG.
        :param conf: its parameters.
        :return: id of the run.
        """
        self.unpause(dag_id)
        body = {"logical_date": None, "conf": dict(conf or {})}
        run_id: str = self._call("POST", f"/dags/{_quoted(dag_id)}/dagRuns", json=body)["dag_run_id"]
        return run_id

    def runs(self, dag_id: str) -> list[dict[str, Any]]:
        """
        Return the runs of a DAG as the API gives them, at most 100.

        :param dag_id: the DAG.
        """
        found: list[dict[str, Any]] = self.get(f"/dags/{_quoted(dag_id)}/dagRuns", limit=100)["dag_runs"]
        return found

    def emit(self, asset: str, extra: Mapping[str, Any]) -> None:
        """
        Have an event of an asset, as a task would emit it.

        :param asset: name of the asset.
        :param extra: what the event says.
        """
        (known,) = [a for a in self.get("/assets", limit=100)["assets"] if a["name"] == asset]
        self._call("POST", "/assets/events", json={"asset_id": known["id"], "extra": dict(extra)})

    def wait_for_request(self, dag_id: str, run_id: str, task_id: str, timeout: float = 300.0) -> dict[str, Any]:
        """
        Wait until a task asks a person, and return what it asks.

        :param dag_id: the DAG.
        :param run_id: the run.
        :param task_id: the task.
        :param timeout: seconds.
        :return: Airflow's own words for it: ``subject``, ``body``, ``options`` and so on.
        :raises TimeoutError: if it does not ask in time; names the state of every task instance.
        """
        patience = Patience(timeout)
        while True:
            states = self.task_states(dag_id, run_id)
            # Before Airflow 3.3 it waits in the triggerer.
            if states.get(task_id) in ("awaiting_input", "deferred") and self._has_put_away(dag_id, run_id, task_id):
                asked: dict[str, Any] = self.get(f"{_instance_path(dag_id, run_id, task_id)}/-1/hitlDetails")
                return asked
            self._alive()
            if patience.over() or states.get(task_id) in FINISHED:
                raise TimeoutError(f"{task_id} of {dag_id} {run_id} asks nobody: {states}")
            time.sleep(0.3)

    def answer(self, dag_id: str, run_id: str, task_id: str, option: str) -> None:
        """
        Answer what a task asks, as the user ``admin``.

        :param dag_id: the DAG.
        :param run_id: the run.
        :param task_id: the task.
        :param option: which of its options.
        """
        body = {"chosen_options": [option], "params_input": {}}
        self._call("PATCH", f"{_instance_path(dag_id, run_id, task_id)}/-1/hitlDetails", json=body)

    def mark(self, dag_id: str, run_id: str, task_id: str, state: str) -> None:
        """
        Mark a task instance, as *Mark success* in the UI does.

        :param dag_id: the DAG.
        :param run_id: the run.
        :param task_id: the task.
        :param state: ``success``, ``failed`` or ``skipped``.
        """
        self._call("PATCH", _instance_path(dag_id, run_id, task_id), json={"new_state": state})

    def clear(self, dag_id: str, run_id: str, task_id: str, *, downstream: bool = True) -> None:
        """
        Have a task of a run begin anew.

        :param dag_id: the DAG.
        :param run_id: the run.
        :param task_id: the task.
        :param downstream: and all that come after it.
        """
        body = {
            "dry_run": False, "dag_run_id": run_id, "task_ids": [task_id], "include_downstream": downstream,
            "only_failed": False, "reset_dag_runs": True,
        }  # fmt: skip
        self._call("POST", f"/dags/{_quoted(dag_id)}/clearTaskInstances", json=body)

    def wait(self, dag_id: str, run_id: str, timeout: float = 300.0) -> str:
        """
        Wait until a run is over; every task instance that starts or ends is one line of progress.

        :param dag_id: the DAG.
        :param run_id: the run.
        :param timeout: seconds.
        :return: ``success`` or ``failed``.
        :raises TimeoutError: if it is not over in time; names the state of every task instance.
        """
        patience = Patience(timeout)
        seen: dict[tuple[str, int], str] = {}
        while True:
            # The run first: where it has ended, so have its tasks.
            ((state,),) = self._stored("SELECT state FROM dag_run WHERE dag_id = ? AND run_id = ?", dag_id, run_id)
            for task_id, map_index, name, now in self._stored(
                "SELECT task_id, map_index, rendered_map_index, coalesce(state, 'none') FROM task_instance"
                " WHERE dag_id = ? AND run_id = ?",
                dag_id,
                run_id,
            ):
                known, seen[task_id, map_index] = seen.get((task_id, map_index)), now
                if now not in {known, *IN_BETWEEN}:
                    self._progress(f"{dag_id} {_instance_name(task_id, map_index, name)}: {now}")
            if state in FINISHED:
                return str(state)
            self._alive()
            if patience.over():
                raise TimeoutError(f"{dag_id} {run_id} is {state} after {timeout:.0f} s: {seen}")
            time.sleep(0.5)

    def task_states(self, dag_id: str, run_id: str) -> dict[str, str]:
        """
        Return the state of each task of a run, ``none`` before it has one; of a mapped task that of one instance.

        Who waits asks this, for an answer of the API takes 25 ms of processor time.

        :param dag_id: the DAG.
        :param run_id: the run.
        """
        query = "SELECT task_id, coalesce(state, 'none') FROM task_instance WHERE dag_id = ? AND run_id = ?"
        return dict(self._stored(query, dag_id, run_id))

    def task_instances(self, dag_id: str, run_id: str) -> list[dict[str, Any]]:
        """
        Return the task instances of a run as the API gives them, mapped ones included.

        :param dag_id: the DAG.
        :param run_id: the run.
        """
        path = f"/dags/{_quoted(dag_id)}/dagRuns/{_quoted(run_id)}/taskInstances"
        instances: list[dict[str, Any]] = []
        while True:
            page = self.get(path, limit=100, offset=len(instances))
            instances += page["task_instances"]
            if len(instances) >= page["total_entries"] or not page["task_instances"]:
                return instances

    def xcom(self, dag_id: str, run_id: str, task_id: str, *, key: str = "return_value", map_index: int = -1) -> Any:
        """
        Return an XCom value.

        :param dag_id: the DAG.
        :param run_id: the run.
        :param task_id: the task that pushed it.
        :param key: its key.
        :param map_index: index of the mapped task instance.
        :raises LocalAirflowError: if there is none.
        """
        path = f"{_instance_path(dag_id, run_id, task_id)}/xcomEntries/{_quoted(key)}"
        value = self.get(path, map_index=map_index)["value"]
        return json.loads(value) if isinstance(value, str) and value[:1] in '{["' else value

    def link(
        self, dag_id: str, run_id: str, task_id: str, name: str, *, map_index: int = -1, timeout: float = 30.0
    ) -> str:
        """
        Return where an extra link of a task instance leads; Airflow stores it after the task has succeeded.

        :param dag_id: the DAG.
        :param run_id: the run.
        :param task_id: the task.
        :param name: what the link is called.
        :param map_index: index of the mapped task instance.
        :param timeout: seconds.
        :raises LocalAirflowError: if it leads nowhere in time.
        """
        patience = Patience(timeout)
        while True:
            links = self.get(f"{_instance_path(dag_id, run_id, task_id)}/links", map_index=map_index)["extra_links"]
            if (address := links.get(name)) is not None:
                return str(address)
            if patience.over():
                raise LocalAirflowError(f"the link {name} of {task_id} leads nowhere after {timeout:.0f} s: {links}")
            time.sleep(0.2)

    def task_log(self, dag_id: str, run_id: str, task_id: str, *, try_number: int = 1, map_index: int = -1) -> str:
        """
        Return the log of a task instance, one event per line with its further fields.

        :param dag_id: the DAG.
        :param run_id: the run.
        :param task_id: the task.
        :param try_number: counted from 1.
        :param map_index: index of the mapped task instance.
        """
        path = f"{_instance_path(dag_id, run_id, task_id)}/logs/{try_number}"
        content = self.get(path, map_index=map_index, full_content=True)["content"]
        return "\n".join(_log_line(entry) for entry in content)

    # -- inside -----------------------------------------------------------------------------------------------------

    def _environment(self, dags_folder: Path, scheduled: bool) -> dict[str, str]:
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("AIRFLOW")}
        # Tasks start spark-submit by name.
        inherited["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), inherited.get("PATH", os.defpath)])
        settings = {
            "CORE__DAGS_FOLDER": str(dags_folder),
            "CORE__PLUGINS_FOLDER": str(self.home / "plugins"),
            "CORE__LOAD_EXAMPLES": "False",
            "CORE__EXECUTOR": "LocalExecutor",
            "CORE__PARALLELISM": "4",
            "CORE__FERNET_KEY": base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
            "CORE__HOSTNAME_CALLABLE": "socket.gethostname",
            "CORE__TEST_CONNECTION": "Enabled",
            "CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
            "CORE__SIMPLE_AUTH_MANAGER_USERS": "admin:admin,viewer:viewer",
            "CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(self.home / "passwords.json"),
            "DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{self.home / 'airflow.db'}",
            "LOGGING__BASE_LOG_FOLDER": str(self.home / "logs"),
            "API__BASE_URL": self.url,
            "API__SECRET_KEY": secrets.token_urlsafe(32),
            "API__WORKERS": "1",
            "API_AUTH__JWT_SECRET": secrets.token_urlsafe(64),
            "SCHEDULER__USE_JOB_SCHEDULE": str(scheduled),
            # How late a request for input may time out.
            "SCHEDULER__TRIGGER_TIMEOUT_CHECK_INTERVAL": "1",
            "SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.6",
            "DAG_PROCESSOR__PARSING_PROCESSES": "1",
            "USAGE_DATA_COLLECTION__ENABLED": "False",
        }
        return inherited | {"AIRFLOW_HOME": str(self.home)} | {f"AIRFLOW__{k}": v for k, v in settings.items()}

    def _stored(self, query: str, *values: str) -> list[tuple[Any, ...]]:
        """Ask Airflow's database."""
        with closing(
            sqlite3.connect(f"{(self.home / 'airflow.db').as_uri()}?mode=ro", uri=True, timeout=30)
        ) as database:
            return database.execute(query, values).fetchall()

    def _start_component(self, name: str, flags: Sequence[str]) -> None:
        with self._log_file(name).open("wb") as log:
            self._processes[name] = _own_session([sys.executable, "-m", "airflow", name, *flags], self._env, log)

    def _log_file(self, name: str) -> Path:
        return self.home / "components" / f"{name}.log"

    def _tails(self, names: Sequence[str], lines: int = 25) -> str:
        tails = []
        for name in names:
            log = self._log_file(name)
            text = log.read_text(errors="replace").splitlines()[-lines:] if log.exists() else []
            tails.append("\n".join([f"{name} ({log}):", *text]))
        return "\n".join(tails)

    def _has_put_away(self, dag_id: str, run_id: str, task_id: str) -> bool:
        """
        Tell whether the scheduler knows that the process has ended which left a task waiting.

        An answer that comes before that makes it take the task, which is queued again, for one that was killed.
        """
        of_task = [dag_id, run_id, task_id]
        told = ""
        for line in self._log_file("scheduler").read_text(errors="replace").splitlines():
            if all(name in line for name in of_task):
                told = line if "Pausing task as" in line or "Received executor event" in line else told
        return "Received executor event" in told

    def _alive(self) -> None:
        ended = [name for name, process in self._processes.items() if process.poll() is not None]
        if ended:
            raise LocalAirflowError(f"Airflow has ended: {self._tails(ended)}")

    def _unhealthy(self) -> list[str]:
        self._alive()
        try:
            health = httpx.get(f"{self.url}/api/v2/monitor/health", timeout=10).json()
        except (httpx.HTTPError, ValueError):
            return ["api-server"]
        return [n for n in COMPONENTS[1:] if health.get(n.replace("-", "_"), {}).get("status") != "healthy"]

    def _call(self, method: str, path: str, **arguments: Any) -> Any:
        if self._client is None:
            raise LocalAirflowError("Airflow is not running: use it inside its with block")
        answer, patience = self._client.request(method, f"/api/v2{path}", **arguments), Patience(30.0)
        # SQLite has one writer at a time, and a request may come while the scheduler is it; these two may be said twice.
        while method in ("GET", "PATCH") and answer.is_server_error and not patience.over():
            time.sleep(0.5)
            answer = self._client.request(method, f"/api/v2{path}", **arguments)
        return _checked(answer)


def _own_session(command: Sequence[str], env: Mapping[str, str], log: IO[bytes]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command, env=env, cwd=env["AIRFLOW_HOME"], stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
        start_new_session=True,
    )  # fmt: skip


@contextmanager
def _gone_is_fine() -> Iterator[None]:
    try:
        yield
    except (psutil.NoSuchProcess, ProcessLookupError):
        return


def _unique(*groups: Sequence[psutil.Process]) -> list[psutil.Process]:
    return list({process.pid: process for group in groups for process in group}.values())


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _checked(answer: httpx.Response) -> Any:
    if not answer.is_success:
        raise LocalAirflowError(f"{answer.request.method} {answer.request.url}: {answer.status_code} {answer.text}")
    return answer.json() if answer.content else None


def _quoted(part: str) -> str:
    return quote(part, safe="")


def _instance_path(dag_id: str, run_id: str, task_id: str) -> str:
    return f"/dags/{_quoted(dag_id)}/dagRuns/{_quoted(run_id)}/taskInstances/{_quoted(task_id)}"


def _instance_name(task_id: str, map_index: int, rendered: str | None) -> str:
    return task_id if map_index < 0 else f"{task_id} [{rendered or map_index}]"


def _log_line(entry: str | Mapping[str, Any]) -> str:
    if isinstance(entry, str):
        return entry
    fields = {k: v for k, v in entry.items() if k not in LOG_NOISE}
    return " ".join([str(entry["event"]), *(f"{k}={v}" for k, v in fields.items())])
