"""How the JVM is started, without starting one: its command, settings and handshake."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from ottla.spark import class_data_archive, fork_server, gateway, session
from ottla.spark.java import Java, StartError


def a_java(major: int) -> Java:
    return Java(Path("/opt/java/bin/java"), f"{major}.0.1")


def test_the_gateway_address_is_port_and_secret() -> None:
    assert gateway.contact(struct.pack(">ii", 40000, 3) + b"abc") == (40000, "abc")


def test_the_command_names_each_jar_and_no_incubating_module() -> None:
    command = gateway.java_command(a_java(17), heap="2g")
    jars = command[command.index("-cp") + 1].split(":")
    assert Path(jars[0]).name.startswith("slf4j-api-")
    assert sorted(jars[1:]) == jars[1:]
    assert "-Xmx2g" in command
    assert not any("incubator" in word for word in command)
    assert command[-1] == gateway.SUBMIT


@pytest.mark.parametrize(("major", "opened"), [(17, True), (21, True), (25, False)])
def test_packages_that_a_java_lacks_are_not_opened(major: int, opened: bool) -> None:
    command = gateway.java_command(a_java(major), heap="1g")
    assert ("--add-opens=java.base/sun.security.action=ALL-UNNAMED" in command) == opened


def test_hadoops_configuration_stands_behind_the_jars(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", "/etc/hadoop")
    assert gateway.class_path()[-1] == "/etc/hadoop"


def test_settings_become_arguments() -> None:
    words = gateway.submit_arguments({"spark.master": "local[2]"})
    assert words == ["--conf", "spark.master=local[2]", "pyspark-shell"]


def test_a_configured_spark_is_recognised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert not gateway.has_own_setup()
    (tmp_path / "spark-defaults.conf").touch()
    assert gateway.has_own_setup()


def test_the_newest_archives_are_kept_and_locks_do_not_count(tmp_path: Path) -> None:
    for number in range(5):
        for ending in ("jsa", "lock"):
            path = tmp_path / f"spark-java17-{number}.{ending}"
            path.touch()
            os.utime(path, (number, number))
    class_data_archive._forget_old(tmp_path / "spark-java17-4.jsa")
    assert sorted(archive.stem[-1] for archive in tmp_path.glob("*.jsa")) == ["2", "3", "4"]


def test_a_jvm_that_exits_at_its_start_is_an_error(tmp_path: Path) -> None:
    program = tmp_path / "java"
    program.write_text("#!/bin/sh\necho no memory >&2\nexit 3\n")
    program.chmod(0o755)
    log = tmp_path / "spark.log"
    launch = gateway.Launch(Java(program, "17"), {}, log=log)
    with pytest.raises(StartError, match=f"exited with code 3 during startup: see {log}"):
        launch.wait()
    assert launch.process.stdin is not None
    launch.process.stdin.close()
    assert log.read_text() == "no memory\n"


def test_a_java_that_can_not_be_run_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="Java does not start"):
        gateway.Launch(Java(tmp_path / "none", "17"), {})


def test_a_jvm_that_was_started_ahead_is_used_for_the_same_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "java"
    program.write_text("#!/bin/sh\nexec cat >/dev/null\n")
    program.chmod(0o755)
    monkeypatch.setattr(session.javas, "find", lambda: Java(program, "17"))
    monkeypatch.setattr(session, "_has_jvm", lambda: False)
    monkeypatch.setenv(fork_server.SWITCH, "off")
    monkeypatch.setenv(class_data_archive.SWITCH, "off")
    same = session._wanted("local[2]", "a name", session.HEAP)
    other = {**same, "spark.jars.packages": "some:jar:1"}
    for settings, options, plain, fits in (
        (same, ("-Xint",), True, True),
        (same, ("-Xint",), False, False),
        (same, ("-Xcomp",), True, False),
        (other, ("-Xint",), True, False),
    ):
        session.launch_ahead(master="local[2]", java_options=("-Xint",))
        (launch,) = session._ahead
        session.launch_ahead(master="local[2]")
        assert session._ahead == [launch], "one is enough"
        taken = session._of_before(settings, options, plain=plain)
        assert (taken is launch) == fits
        assert (launch.process.poll() is None) == fits
        launch.end()
        assert not session._ahead
        assert session._of_before(same, (), plain=True) is None
    monkeypatch.setattr(session.javas, "find", lambda: Java(tmp_path / "none", "17"))
    session.launch_ahead(master="local[2]")
    assert not session._ahead, "the start of the session reports the error"


@pytest.mark.parametrize(
    ("options", "made"), [((), True), (session.FIRST_COMPILER, True), (("-Xint",), False)]
)
def test_an_archive_is_created_for_jvms_with_our_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], made: bool
) -> None:
    program = tmp_path / "java"
    program.write_text("#!/bin/sh\nexec cat >/dev/null\n")
    program.chmod(0o755)
    begun: list[bool] = []
    monkeypatch.setattr(class_data_archive, "make_later_in_background", lambda: begun.append(True))
    monkeypatch.setattr(class_data_archive, "is_missing", lambda java: True)
    monkeypatch.setenv(fork_server.SWITCH, "off")
    settings = session._wanted("local[2]", "a name", session.HEAP)
    session._launched(settings, None, Java(program, "17"), options).end()
    assert bool(begun) == made


def test_the_log_is_silent_on_the_terminal_and_whole_in_a_file() -> None:
    assert "rootLogger.level = fatal" in gateway.log_settings(None)
    in_file = gateway.log_settings(Path("/tmp/x.log"))
    assert "rootLogger.level = info" in in_file
    assert "appender.out.fileName = /tmp/x.log" in in_file


def test_an_existing_archive_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTTLA_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv(class_data_archive.SWITCH, "on")
    for major, option in ((17, "-XX:SharedArchiveFile="), (25, "-XX:AOTCache=")):
        java = a_java(major)
        assert class_data_archive.is_missing(java)
        assert class_data_archive.options(java) == []
        class_data_archive.path_for(java).touch()
        assert class_data_archive.options(java) == [f"{option}{class_data_archive.path_for(java)}"]
    monkeypatch.setenv(class_data_archive.SWITCH, "off")
    assert class_data_archive.options(a_java(17)) == []


def test_options_of_the_environment_are_given_to_java(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[str] = []

    def launch(*_: object, java_options: list[str], **__: object) -> None:
        given.extend(java_options)
        raise session.StartError("enough")

    monkeypatch.setattr(session, "Launch", launch)
    monkeypatch.setenv(class_data_archive.SWITCH, "off")
    monkeypatch.setenv(session.JAVA_OPTIONS, "-Xint -Da=b")
    with pytest.raises(session.StartError, match="enough"):
        session._start_jvm({}, None, a_java(17), ["-Xfirst"])
    assert given == ["-Xfirst", "-Xint", "-Da=b"]


@pytest.mark.parametrize(
    ("master", "count"),
    [("local", 1), ("local[3]", 3), ("local[4,2]", 4), ("spark://h:7077", None), ("yarn", None)],
)
def test_cores_of_a_master(master: str, count: int | None) -> None:
    assert session.cores(master) == count


def test_a_cluster_keeps_its_own_addresses_and_partitions() -> None:
    assert "spark.driver.host" not in session.settings_for("spark://h:7077")
    assert "spark.sql.shuffle.partitions" not in session.settings_for("yarn")
    assert session.settings_for("local[3]")["spark.sql.shuffle.partitions"] == "3"
