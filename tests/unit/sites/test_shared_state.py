"""The state of a site is founded, joined and opened: the same for all machines."""

from __future__ import annotations

import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grampus.core.errors import GrampusError, NotFoundError, UsageError
from grampus.databases.backup.keys import backup_keys
from grampus.databases.backup.places import TargetPlace
from grampus.databases.backup.s3_credentials import read_credentials
from grampus.databases.backup.shared_credentials import (
    forget_credentials,
    reachable_place,
    renew_credentials,
    share_credentials,
)
from grampus.databases.credentials import CredentialFiles
from grampus.databases.users.user_files import UserFiles
from grampus.sites import shared_state
from grampus.sites.model import (
    EPOCH_RECORD,
    MACHINE_RECORD,
    SITE_HOST_RECORD,
    SITE_RECORD,
    ControllerEpoch,
    SiteHostSpec,
    SiteMachine,
    SiteSpec,
    site_directory,
)
from grampus.sites.shared_state import (
    SharedState,
    found_state,
    join_state,
    known_hosts_file,
    open_state,
)
from grampus.sites.site_key import (
    SiteKey,
    find_site_key,
    parse_join_file,
    place_secret,
    render_secret,
    site_key_file,
    write_site_key,
)
from grampus.state.home import Home
from grampus.state.keys import KeptKeys, keep_keys_of_site
from grampus.state.log_port import StateUnansweredError
from grampus.state.operations import OperationJournal
from grampus.state.store import Store
from grampus.volumes.volume_keys import master_keys
from tests.fakes.clock import NEW_YEAR, FakeClock
from tests.fakes.specs import site_spec
from tests.fakes.state_log import FakeStateLog

SITE = "prod"
SPEC = site_spec(name=SITE, pool="shops")
HOST = SiteHostSpec(name="db1", address="10.0.5.11", ssh_user="root", ssh_address="db1")


class World:
    """Homes on machines, and the log in the cluster."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.log: Any = FakeStateLog()
        self.clock = FakeClock()
        self.told: list[str] = []

    def home(self, name: str) -> Home:
        return Home(self.directory / name)

    def found(self, name: str) -> SharedState:
        home = self.home(name)
        former = Store(home.store_file)
        return found_state(home, SPEC, self.log, self.clock, former)

    def join(self, name: str, of: str) -> SharedState:
        """By the key of another home."""
        key = find_site_key(site_directory(self.home(of), SITE))
        assert key is not None
        write_site_key(site_directory(self.home(name), SITE), key)
        return join_state(self.home(name), SITE, self.log, self.clock)

    def open(self, name: str) -> SharedState:
        return open_state(
            *(self.home(name), SITE, self.log, self.clock),
            command="db list",
            on_silence=lambda error: self.told.append(error.problem),
        )


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def credentials(state: SharedState) -> CredentialFiles:
    return CredentialFiles(state.home.secrets_dir(SITE), state.home.shared)


def files(home: Home) -> dict[str, str]:
    directory = home.secrets_dir(SITE)
    found = (path for path in sorted(directory.rglob("*")) if path.is_file())
    return {str(path.relative_to(directory)): path.read_text() for path in found}


def test_a_machine_that_joins_has_all_records(world: World) -> None:
    first = world.found("a")
    first.store.put(SITE_HOST_RECORD, SITE, "db1", HOST)
    second = world.join("b", of="a")
    assert second.store.get(SITE_RECORD, SITE, SITE, SiteSpec) == SPEC
    assert second.store.all(SITE_HOST_RECORD, SITE, SiteHostSpec) == {"db1": HOST}
    assert second.epochs.own() == first.epochs.own()
    again = world.open("a")
    machines = again.store.all(MACHINE_RECORD, SITE, SiteMachine).values()
    assert {one.home for one in machines} == {str(world.directory / name) for name in "ab"}


def test_passwords_are_the_same_everywhere_and_sealed_in_the_cluster(world: World) -> None:
    first = world.found("a")
    second = world.join("b", of="a")
    made = credentials(first).ensure("shop")
    credentials(first).write_client_files("shop", f"ssl-ca={first.home.root}/ca", "CA")
    second.store.catch_up()
    assert credentials(second).load("shop") == made
    option_file = credentials(second).option_file("shop")
    assert option_file.read_text() == f"ssl-ca={second.home.root}/ca"
    assert stat.S_IMODE(option_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(option_file.parent.stat().st_mode) == 0o700
    in_cluster = "".join(world.log.entries.values())
    assert made.password.get_secret_value() not in in_cluster
    assert "ssl-ca" not in in_cluster


def test_changes_of_secrets_reach_the_others(world: World) -> None:
    first, second = world.found("a"), world.join("b", of="a")
    here, there = credentials(first), credentials(second)
    here.ensure("shop")
    following = here.ensure_next("shop")
    second.store.catch_up()
    there.settle_next("shop")
    first.store.catch_up()
    assert (here.load("shop"), here.find_next("shop")) == (following, None)
    users = UserFiles(here, "shop")
    users.ensure_next("app")
    here.ensure_moved("shop", "store")
    second.store.catch_up()
    assert files(second.home) == files(first.home)
    assert set(files(first.home)) == {"store.json", "store.users/app.next"}
    there.ensure_absent("store")
    first.store.catch_up()
    assert files(first.home) == files(second.home) == {}
    assert not here.users_directory("store").exists()


def test_a_secret_is_shared_before_it_is_used_here(world: World) -> None:
    """Without the cluster nobody is told a password that only one machine knows."""
    state = world.found("a")
    world.log.is_down = True
    with pytest.raises(StateUnansweredError):
        credentials(state).ensure("shop")
    assert not credentials(state).are_there("shop")


def test_an_operation_of_one_machine_is_found_by_the_other(world: World) -> None:
    first, second = world.found("a"), world.join("b", of="a")
    OperationJournal(first.store, world.clock).begin("db.create", SITE, "shop", {"x": 1})
    second.store.catch_up()
    (found,) = OperationJournal(second.store, world.clock).unfinished(SITE)
    assert (found.subject, found.spec) == ("shop", {"x": 1})


def test_a_cluster_is_adopted_once(world: World) -> None:
    world.found("a")
    world.found("a").close()
    with pytest.raises(GrampusError) as refused:
        world.found("b")
    assert refused.value.code == "site-joined-elsewhere"
    assert "grampus site key prod" in refused.value.remedy


def test_only_an_adopted_cluster_is_joined(world: World) -> None:
    write_site_key(site_directory(world.home("b"), SITE), SiteKey.make())
    with pytest.raises(GrampusError) as refused:
        join_state(world.home("b"), SITE, world.log, world.clock)
    assert refused.value.code == "site-not-adopted"


def test_founding_is_continued_wherever_it_was_interrupted(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each write of the cluster is the last one once, before and after it is done."""
    create, append = world.log.create, world.log.append
    for number in range(8):
        done = 0

        def counted(request: Any, number: int = number) -> Any:
            def call(*arguments: Any) -> Any:
                nonlocal done
                done += 1
                if done == number // 2 + 1 and number % 2 == 0:
                    raise KeyboardInterrupt
                answer = request(*arguments)
                if done == number // 2 + 1:
                    raise KeyboardInterrupt
                return answer

            return call

        monkeypatch.setattr(world.log, "create", counted(create))
        monkeypatch.setattr(world.log, "append", counted(append))
        with pytest.raises(KeyboardInterrupt):
            world.found("a")
        monkeypatch.setattr(world.log, "create", create)
        monkeypatch.setattr(world.log, "append", append)
        state = world.found("a")
        own = state.epochs.own()
        assert own is not None
        assert own.number == 1
        assert state.store.get(SITE_RECORD, SITE, SITE, SiteSpec) == SPEC
        assert len(state.store.all(MACHINE_RECORD, SITE, SiteMachine)) == 1
        state.close()
        world.log.remove()


def test_a_site_of_an_earlier_release_moves_into_the_cluster(world: World) -> None:
    home = world.home("a")
    former = Store(home.store_file)
    former.put(SITE_RECORD, SITE, SITE, SPEC)
    former.put(SITE_HOST_RECORD, SITE, "db1", HOST)
    epoch = ControllerEpoch(number=4, id="x", machine="m", machine_id="", since=NEW_YEAR)
    former.put(EPOCH_RECORD, SITE, SITE, epoch)
    former.put(SITE_HOST_RECORD, "other", "db1", HOST)
    OperationJournal(former, world.clock).begin("db.create", SITE, "shop", {})
    kept = CredentialFiles(home.secrets_dir(SITE)).ensure("shop")
    (site_directory(home, SITE)).mkdir(parents=True)
    (site_directory(home, SITE) / "known_hosts").write_text("db1 KEY\n")
    state = world.found("a")
    own = state.epochs.own()
    assert own is not None
    assert own.number == 5, "hosts have seen the earlier ones"
    joined = world.join("b", of="a")
    assert joined.store.all(SITE_HOST_RECORD, SITE, SiteHostSpec) == {"db1": HOST}
    assert len(OperationJournal(joined.store, world.clock).unfinished(SITE)) == 1
    assert credentials(joined).load("shop") == kept
    assert known_hosts_file(joined.home, SITE).read_text() == "db1 KEY\n"
    assert former.all(SITE_HOST_RECORD, SITE, SiteHostSpec) == {}
    assert former.get(SITE_RECORD, SITE, SITE, SiteSpec) == SPEC
    assert former.names(SITE_HOST_RECORD, "other") == ["db1"]
    assert OperationJournal(former, world.clock).unfinished(SITE) == []


def test_adopting_again_keeps_the_image_that_hosts_have(world: World) -> None:
    """Another machine has upgraded them since; this one changes the addresses."""
    first = world.found("a")
    first.store.put(SITE_HOST_RECORD, SITE, "db1", HOST)
    second = world.join("b", of="a")
    upgraded = SPEC.model_copy(update={"image_id": "sid-2", "image_digest": "2" * 64})
    second.store.put(SITE_RECORD, SITE, SITE, upgraded)
    changed = SPEC.model_copy(update={"addresses": "10.0.5.1-9"})
    home = world.home("a")
    again = found_state(home, changed, world.log, world.clock, Store(home.store_file))
    expected = upgraded.model_copy(update={"addresses": "10.0.5.1-9"})
    assert again.store.get(SITE_RECORD, SITE, SITE, SiteSpec) == expected


def test_a_lost_site_key_is_replaced_where_the_passwords_are(world: World) -> None:
    state = world.found("a")
    made = credentials(state).ensure("shop")
    world.join("b", of="a").close()
    state.close()
    site_key_file(site_directory(world.home("a"), SITE)).unlink()
    with pytest.raises(GrampusError) as refused:
        world.open("a")
    assert refused.value.code == "no-site-key"
    world.found("a").close()
    # The other machine has to join again, and is told so.
    with pytest.raises(GrampusError) as told:
        world.open("b")
    assert told.value.code == "bad-secret"
    assert credentials(world.join("b", of="a")).load("shop") == made


def test_without_the_cluster_the_copy_is_shown(world: World) -> None:
    state = world.found("a")
    state.store.put(SITE_HOST_RECORD, SITE, "db1", HOST)
    state.close()
    world.log.is_down = True
    opened = world.open("a")
    assert world.told == ["The cluster does not answer."]
    assert opened.store.names(SITE_HOST_RECORD, SITE) == ["db1"]


def test_a_secret_stays_in_its_directory(world: World) -> None:
    """Whoever may write to the pool is not to write to files elsewhere."""
    state = world.found("a")
    row = ("prod", "../../evil", SiteKey.make().seal("x"))
    with pytest.raises(GrampusError, match="outside"):
        state.store.change(
            lambda connection: connection.execute("INSERT INTO secrets VALUES (?, ?, ?)", row)
        )


@pytest.mark.parametrize("text", ["", "{}", "no json", '{"site": 1}'])
def test_a_file_that_describes_no_site(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_join_file(text)
    assert refused.value.code == "bad-join-file"


def test_the_state_is_in_the_directory_of_the_site(tmp_path: Path) -> None:
    home = Home(tmp_path)
    assert shared_state.state_file(home, SITE).parent == site_directory(home, SITE)


KINDS: dict[str, Callable[[Home], KeptKeys[Any]]] = {
    "volumes": master_keys,
    "backups": backup_keys,
}


Keys = Callable[[SharedState], KeptKeys[Any]]


@pytest.fixture(params=KINDS)
def keys(request: pytest.FixtureRequest) -> Keys:
    return lambda state: KINDS[request.param](state.home)


def test_keys_are_the_same_everywhere_and_sealed_in_the_cluster(world: World, keys: Keys) -> None:
    first, second = world.found("a"), world.join("b", of="a")
    made = keys(first).ensure_current()
    second.store.catch_up()
    assert keys(second).find_current() == keys(second).get(made.id) == made
    assert keys(world.join("c", of="a")).ensure_current() == made
    assert made.render().split()[2] not in "".join(world.log.entries.values())
    for path in keys(second).directory.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(keys(second).directory.stat().st_mode) == 0o700


def test_machines_that_need_a_first_key_together_use_one(world: World, keys: Keys) -> None:
    first, second = world.found("a"), world.join("b", of="a")
    of_first = keys(first).ensure_current()
    assert keys(second).find_current() is None, "it has not seen that yet"
    assert keys(second).ensure_current() == of_first
    first.store.catch_up()
    assert keys(first).find_current() == of_first
    assert keys(first).ids() == keys(second).ids()


def test_a_rotation_is_continued_by_another_machine(world: World, keys: Keys) -> None:
    first, second = world.found("a"), world.join("b", of="a")
    former, following = keys(first).ensure_current(), keys(first).ensure_next()
    second.store.catch_up()
    assert keys(second).ensure_next() == following
    keys(second).settle_next(following.id)
    first.store.catch_up()
    assert keys(first).find_current() == following
    assert keys(first).find_next() is None
    assert keys(first).get(former.id) == former


def test_keys_that_an_earlier_release_kept_in_a_home_are_shared_when_used(
    world: World, keys: Keys
) -> None:
    first, second = world.found("a"), world.join("b", of="a")
    of_home = keys(replace(first, home=world.home("a")))
    used, unused = of_home.ensure_current(), of_home.ensure_next()
    of_home.settle_next(unused.id)
    assert keys(first).find_current() is None, "new ones belong to the site"
    assert (keys(first).ids(), keys(first).own_ids()) == (of_home.ids(), [])
    assert keys(first).all() == of_home.all()
    world.log.is_down = True
    assert keys(first).get(used.id) == used
    world.log.is_down = False
    with pytest.raises(NotFoundError, match="import FILE --site prod`"):
        keys(second).get(used.id)
    assert keys(first).get(used.id) == used
    second.store.catch_up()
    assert keys(second).get(used.id) == used
    assert keys(second).ids() == [used.id]
    assert keys(first).own_ids() == [used.id], "all machines show the same"


def test_a_key_is_shared_before_it_is_used_here(world: World, keys: Keys) -> None:
    """What is sealed with a key that only a lost machine had can be opened by nobody."""
    state = world.found("a")
    world.log.is_down = True
    with pytest.raises(StateUnansweredError):
        keys(state).ensure_current()
    assert keys(state).ids() == []
    assert keys(state).find_current() is None


def test_keys_outlive_the_site_in_the_home_that_forgets_it(world: World, keys: Keys) -> None:
    state = world.found("a")
    made = keys(state).ensure_current()
    of_home = keys(replace(state, home=world.home("a")))
    own = of_home.ensure_current()
    credentials(state).files.write(state.home.secrets_dir(SITE) / "shop.users" / "a.key", "else")
    (kept,) = keep_keys_of_site(world.home("a"), SITE)
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert of_home.get(made.id) == made
    assert of_home.find_current() == own, "it is used for nothing new"


@pytest.mark.parametrize(
    ("content", "there"),
    [
        ("ssl-ca={0}/secrets/prod/shop.ca.pem\n", "ssl-ca={1}/secrets/prod/shop.ca.pem\n"),
        ('{{"file": "{0}/x", "home": "{0}"}}', '{{"file": "{1}/x", "home": "{1}"}}'),
        ("{0}", "{1}"),
        # Beside the home, and where its path is only a part of another one.
        ("ca_bundle = {0}-backup/ca.pem", "ca_bundle = {0}-backup/ca.pem"),
        ("{0}.old {0}2 /mnt{0}/x ./{0}", "{0}.old {0}2 /mnt{0}/x ./{0}"),
    ],
)
def test_paths_in_secrets_are_those_of_each_home(content: str, there: str) -> None:
    homes = Home(Path("/var/lib/grampus")), Home(Path("/srv/grampus"))
    shared = render_secret(content.format(*(home.root for home in homes)), homes[0])
    assert place_secret(shared, homes[1]) == there.format(*(home.root for home in homes))


def test_credentials_of_schedules_are_on_each_machine(world: World, tmp_path: Path) -> None:
    first, second = world.found("a"), world.join("b", of="a")
    file = tmp_path / "s3.credentials"
    place = TargetPlace(url="s3://backups", credentials=str(file))
    share_credentials(first.home, place)
    assert reachable_place(first.home, place) == place, "there is no such file"
    file.write_text("the keys")
    share_credentials(first.home, place)
    second.store.catch_up()
    assert reachable_place(second.home, place) == place, "it has its own"
    file.unlink()
    found = reachable_place(second.home, place)
    assert found.url == place.url
    copy = Path(found.credentials or "")
    assert copy.is_relative_to(second.home.secrets_dir(SITE))
    assert (copy.read_text(), stat.S_IMODE(copy.stat().st_mode)) == ("the keys", 0o600)
    assert "the keys" not in "".join(world.log.entries.values())
    file.write_text("changed")
    world.log.is_down = True
    renew_credentials(first.home, place)
    world.log.is_down = False
    renew_credentials(first.home, place)
    second.store.catch_up()
    assert copy.read_text() == "changed"
    forget_credentials(first.home, place, [place])
    second.store.catch_up()
    assert copy.exists()
    forget_credentials(first.home, place, [TargetPlace(url="s3://backups", credentials="/x")])
    second.store.catch_up()
    assert not copy.exists()
    assert not copy.parent.exists()


KEYS = """[default]
aws_access_key_id = id
aws_secret_access_key = key
ca_bundle = {authorities}
region = eu
"""


@pytest.mark.parametrize("authorities", ["{0}/s3-ca.pem", "s3-ca.pem"])
def test_with_credentials_each_machine_gets_the_authorities_that_they_name(
    world: World, tmp_path: Path, authorities: str
) -> None:
    first, second = world.found("a"), world.join("b", of="a")
    file, certificates = tmp_path / "s3.credentials", tmp_path / "s3-ca.pem"
    file.write_text(KEYS.format(authorities=authorities.format(tmp_path)))
    file.chmod(0o600)
    certificates.write_text("of a private authority")
    place = TargetPlace(url="s3://backups", credentials=str(file))
    assert read_credentials(file).ca_file == str(certificates)
    share_credentials(first.home, place)
    certificates.write_bytes("# Société\n".encode("latin-1") + b"of its successor")
    share_credentials(first.home, place)
    for gone in (file, certificates):
        gone.unlink()
    second.store.catch_up()
    copy = Path(reachable_place(second.home, place).credentials or "")
    found = read_credentials(copy)
    assert (found.access_key, found.secret_key, found.region) == ("id", "key", "eu")
    assert Path(found.ca_file or "").read_text().endswith("\nof its successor")
    forget_credentials(first.home, place, [])
    second.store.catch_up()
    assert not copy.parent.exists()


@pytest.mark.parametrize("size_bytes", [None, 64 * 1024 + 1])
def test_a_file_of_authorities_that_is_not_shared_is_looked_for_on_each_machine(
    world: World, tmp_path: Path, size_bytes: int | None
) -> None:
    """It is not here, or has all the authorities that a system trusts."""
    first, second = world.found("a"), world.join("b", of="a")
    file, certificates = tmp_path / "s3.credentials", tmp_path / "all.pem"
    file.write_text(KEYS.format(authorities=certificates))
    if size_bytes is not None:
        certificates.write_bytes(b"x" * size_bytes)
    place = TargetPlace(url="s3://backups", credentials=str(file))
    share_credentials(first.home, place)
    file.unlink()
    second.store.catch_up()
    copy = Path(reachable_place(second.home, place).credentials or "")
    assert read_credentials(copy).ca_file == str(certificates)


def test_a_lab_keeps_credentials_where_they_are(world: World, tmp_path: Path) -> None:
    file = tmp_path / "s3.credentials"
    file.write_text("the keys")
    place = TargetPlace(url="s3://backups", credentials=str(file))
    home = world.home("a")
    share_credentials(home, place)
    forget_credentials(home, place, [])
    file.unlink()
    assert reachable_place(home, place) == place
    assert not home.root.exists()
