from __future__ import annotations

from pathlib import Path, PurePosixPath

from grampus.databases.credentials import CredentialFiles
from grampus.databases.instance import ensure_files, ensure_initialised, ensure_serving
from grampus.databases.layout import init_daemon

from .fakes import FakeClock, FakeDaemon, FakeFile, FakeHost, Fuse
from .test_layout import plan


def test_an_initialisation_left_running_is_ended_and_made_anew(tmp_path: Path) -> None:
    host, instance = FakeHost("h1", Fuse()), plan()
    credentials = CredentialFiles(tmp_path).ensure("demo")
    ensure_files(host, instance, credentials)
    host.daemons[instance.init_daemon] = FakeDaemon(init_daemon(instance), "running")
    ensure_initialised(host, instance, credentials, FakeClock())
    assert host.read_file(instance.marker) is not None
    assert instance.init_daemon not in host.daemons


def test_the_accounts_file_is_gone_once_they_are_made(tmp_path: Path) -> None:
    host, instance = FakeHost("h1", Fuse()), plan()
    credentials = CredentialFiles(tmp_path).ensure("demo")
    ensure_files(host, instance, credentials)
    ensure_initialised(host, instance, credentials, FakeClock())
    assert host.read_file(instance.accounts_file) is None
    assert host.read_file(instance.init_script) is None


def test_certificates_half_made_are_made_anew_and_whole_ones_kept(tmp_path: Path) -> None:
    host, instance = FakeHost("h1", Fuse()), plan()
    credentials = CredentialFiles(tmp_path).ensure("demo")
    host.files[instance.directory / "tls.new" / "ca-key.pem"] = FakeFile("half")
    ensure_files(host, instance, credentials)
    assert not host.below(instance.directory / "tls.new")
    made = host.below(instance.tls_dir)
    ensure_files(host, instance, credentials)
    assert all(host.files[path] is file for path, file in made.items())


def test_the_version_is_the_first_word_of_the_answer(tmp_path: Path) -> None:
    host, instance = FakeHost("h1", Fuse()), plan()
    credentials = CredentialFiles(tmp_path).ensure("demo")
    ensure_files(host, instance, credentials)
    ensure_initialised(host, instance, credentials, FakeClock())
    host.ensure_address(instance.address)
    assert ensure_serving(host, instance, FakeClock()) == "9.7.4"
    assert host.files[PurePosixPath("/data/databases/demo/client.cnf")].mode == 0o600
