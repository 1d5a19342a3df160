# SPDX-License-Identifier: Apache-2.0
"""
The local Kafka of demo, tests and benchmarks.

Here: the Java archives of Kafka and of Spark's Kafka connector, copied by Maven into ``dev/lib`` when ``dev/pom.xml`` has
changed since the last time, and the classes of ``dev/java``, compiled when one of its sources has.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

DEV_FOLDER = Path(__file__).resolve().parent
POM = DEV_FOLDER / "pom.xml"
LIB_FOLDER = DEV_FOLDER / "lib"
JAVA_SOURCES = DEV_FOLDER / "java"
MINIMUM_JAVA = 17
COPY_DEPENDENCIES = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
JAVA_COMPILER = "jdk.compiler/com.sun.tools.javac.Main"
STAMP = ".pom.sha256"
BROKER_PROFILE = "kafka-broker"
KAFKA_PROFILES = f"{BROKER_PROFILE},kafka-tests"
WITHOUT_TESTS = frozenset({"4.4.0"})
"""Versions of Kafka that were published without ``kafka-storage:test`` and ``kafka-tools``."""
BORROWED = ("kafka-storage-*-test.jar", "kafka-tools-[0-9]*.jar", "kafka-clients-[0-9]*.jar")
"""Jars of the pom's Kafka that those need, in the order of a class path."""


class DevEnvironmentError(RuntimeError):
    """Java or Maven is missing or does not work; the message says how to install it."""


def ensure_jars(kafka_version: str | None = None) -> Path:
    """
    Kafka's Java archives, fetched if they are missing or older than the pom.

    :param kafka_version: another version than the pom's.
    :return: folder of the jars, one for each version.
    :raises DevEnvironmentError: if Java or Maven is missing, or Maven fails.
    """
    if kafka_version is None:
        return _ensure(KAFKA_PROFILES, LIB_FOLDER / "kafka")
    profiles = BROKER_PROFILE if kafka_version in WITHOUT_TESTS else KAFKA_PROFILES
    return _ensure(profiles, LIB_FOLDER / f"kafka-{kafka_version}", f"-Dkafka.version={kafka_version}")


def kafka_class_path(kafka_version: str | None = None) -> list[str]:
    """
    The entries of a class path with a Kafka: its broker, ``LocalTieredStorage`` and its command line tools.

    A Kafka that was published without the last two borrows those of the pom. They come last, and with them the classes of
    the pom's clients that its own no longer have: whatever both have is its own.

    :param kafka_version: another version than the pom's.
    :raises DevEnvironmentError: as :func:`ensure_jars`.
    """
    entries = [f"{ensure_jars(kafka_version)}/*"]
    if kafka_version in WITHOUT_TESTS:
        jars = ensure_jars()
        entries += [str(jar) for pattern in BORROWED for jar in sorted(jars.glob(pattern))]
    return entries


def ensure_spark_jars(version: str | None = None) -> Path:
    """
    Spark's Kafka connector and what it needs beyond the jars that pyspark ships, fetched if missing or older than the pom.

    :param version: another version of Spark than the pom's; the Scala is that of pip's PySpark.
    :return: folder of the jars, one for each version.
    :raises DevEnvironmentError: if Java or Maven is missing, or Maven fails.
    """
    if version is None:
        return _ensure("spark-kafka", LIB_FOLDER / "spark")
    scala = "2.12" if version.startswith("3.") else "2.13"
    return _ensure(
        "spark-kafka", LIB_FOLDER / f"spark-{version}", f"-Dspark.version={version}", f"-Dspark.scala={scala}"
    )


def spark_version() -> str:
    """Return the version of Spark whose Kafka connector :func:`ensure_spark_jars` has: the pom's."""
    (found,) = re.finditer(r"<spark\.version>([^<]+)<", POM.read_text())
    return found[1]


def ensure_java_classes() -> Path:
    """
    The classes of ``dev/java``, compiled if they are missing or older than their sources or the pom.

    :return: folder of the classes; they need the jars of :func:`ensure_jars`.
    :raises DevEnvironmentError: if Java has no compiler or it fails, or as :func:`ensure_jars`.
    """
    jars, folder = ensure_jars(), LIB_FOLDER / "java"
    sources = sorted(JAVA_SOURCES.rglob("*.java"))
    wanted = hashlib.sha256(b"".join(path.read_bytes() for path in [POM, *sources])).hexdigest()
    with _lock(folder.with_suffix(".lock")):
        if _stamp(folder) != wanted:
            _compile(sources, jars, folder, wanted)
    return folder


def java_executable() -> str:
    """
    The ``java`` of ``JAVA_HOME`` if that is set, else the one on the path.

    :raises DevEnvironmentError: if there is none, or it is older than Java 17.
    """
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home) / "bin") if home else None)
    advice = "install Java 17 (Debian, Ubuntu: apt install openjdk-17-jre-headless; macOS: brew install openjdk@17)"
    if java is None:
        raise DevEnvironmentError(f"no java in {home or 'PATH'}: {advice}, or correct JAVA_HOME")
    answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    found = re.search(r'version "(\d+)', answer.stderr + answer.stdout)
    if found is None or int(found[1]) < MINIMUM_JAVA:
        raise DevEnvironmentError(f"{java} is Java {found[1] if found else '?'}: {advice}, and point JAVA_HOME to it")
    return java


def _ensure(profile: str, folder: Path, *properties: str) -> Path:
    """Copy a profile's dependencies into the folder unless its stamp is the pom's hash."""
    wanted = hashlib.sha256(POM.read_bytes()).hexdigest()
    if _stamp(folder) == wanted:
        return folder
    with _lock(folder.with_name(f"{folder.name}.lock")):
        # Another process may have done it while this one waited for the lock.
        if _stamp(folder) != wanted:
            _copy_dependencies(profile, folder, wanted, properties)
    return folder


def _copy_dependencies(profile: str, folder: Path, stamp: str, properties: Sequence[str]) -> None:
    """Let Maven fill a fresh folder, then put it in the place of the old one: a half-filled folder is never seen."""
    java_executable()
    maven = shutil.which("mvn")
    if maven is None:
        raise DevEnvironmentError(
            "no mvn in PATH: install Maven (Debian, Ubuntu: apt install maven; macOS: brew install maven)"
        )
    fresh = folder.with_name(f"{folder.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    done = subprocess.run(
        [maven, "-B", "-q", "-f", str(POM), "-P", profile, COPY_DEPENDENCIES,
         f"-DoutputDirectory={fresh}", "-DincludeScope=runtime", *properties],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-15:])
        raise DevEnvironmentError(
            f"Maven could not fetch the jars of profile {profile} (is its repository in reach?):\n{tail}"
        )
    (fresh / STAMP).write_text(stamp)
    shutil.rmtree(folder, ignore_errors=True)
    fresh.rename(folder)


def _compile(sources: Sequence[Path], jars: Path, folder: Path, stamp: str) -> None:
    """Compile into a fresh folder, then put it in the place of the old one."""
    fresh = folder.with_suffix(".new")
    shutil.rmtree(fresh, ignore_errors=True)
    class_path = os.pathsep.join(map(str, sorted(jars.glob("*.jar"))))
    # The module and not the command javac: there are runtimes that hold the one without the other.
    done = subprocess.run(
        [java_executable(), "-m", JAVA_COMPILER, "--release", str(MINIMUM_JAVA), "-Xlint:all", "-Werror",
         "-cp", class_path, "-d", str(fresh), *map(str, sources)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    output = done.stdout + done.stderr
    if "Module jdk.compiler not found" in output:
        raise DevEnvironmentError(
            f"{java_executable()} has no compiler: install a JDK {MINIMUM_JAVA} "
            "(Debian, Ubuntu: apt install openjdk-17-jdk-headless; macOS: brew install openjdk@17)"
        )
    if done.returncode != 0:
        raise DevEnvironmentError(f"the sources in {JAVA_SOURCES} do not compile:\n{output}")
    (fresh / STAMP).write_text(stamp)
    shutil.rmtree(folder, ignore_errors=True)
    fresh.rename(folder)


def _stamp(folder: Path) -> str | None:
    """Hash of what the folder was made from; None if it never was."""
    try:
        return (folder / STAMP).read_text()
    except FileNotFoundError:
        return None


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Hold an exclusive lock that ends with its process, however that ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
