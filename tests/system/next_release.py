"""The next release of Grampus, beside the present one: with a later version and another host image.

    with NextRelease(directory, line) as release:
        release.line.ok("host", "upgrade", "s1")

It is a checkout with a copy of the source, whose definition of the image `sid` differs. Its image
is the present one without what no host of a site needs, so it is built in a second and copied
sooner.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from types import TracebackType

from grampus.lab.images.definition import parse_definition
from tests.system.command_line import CHECKOUT, CommandLine, Finished

VERSION = "99.0.0"
IMAGE = "sid"
_UNNEEDED = (
    *("usr/bin/ceph-*", "usr/bin/cephfs-*", "usr/bin/radosgw-*", "usr/bin/qemu-*", "usr/bin/fio"),
    *("usr/bin/sysbench", "usr/bin/my*slap", "usr/bin/*isam*", "usr/bin/mysql_*"),
    *("usr/lib/*/librgw.so*", "usr/lib/*/perl", "usr/share/perl", "usr/share/mysql/mysql-test"),
    *("usr/bin/perror", "usr/bin/mysqlcheck", "usr/bin/mysqlimport", "usr/bin/mysqlshow"),
    *("usr/bin/ibd2sdi", "usr/bin/innochecksum", "usr/bin/my_print_defaults", "usr/bin/perl*"),
    *("usr/lib/mysql/plugin/authentication_*", "usr/lib/mysql/plugin/group_replication.so"),
    *("usr/lib/systemd", "usr/lib/*/systemd", "usr/lib/*/ceph/erasure-code", "usr/sbin/lvm"),
    *("usr/lib/python3/dist-packages/numpy*", "usr/lib/python3/dist-packages/scipy*"),
    *(
        "var/lib/dpkg/info",
        "usr/share/locale",
        "usr/share/i18n",
        "usr/lib/*/gconv",
        "usr/lib/mysql/plugin/telemetry*",
    ),
)


class NextReleaseLine(CommandLine):
    """Runs the next release as a user does, and not by forks of the present one."""

    def __init__(self, line: CommandLine, source: Path) -> None:
        super().__init__(line.lab, line.home)
        self._source = source

    def run(
        self, *arguments: str, failpoints: str = "", stdin: str = "", timeout_s: float = 400
    ) -> Finished:
        """Run `grampus ARGUMENTS` of the next release to its end, whatever its code."""
        with self.start(
            *arguments,
            stdin=subprocess.PIPE,
            environment={"GRAMPUS_FAILPOINTS": failpoints},
        ) as process:
            stdout, stderr = process.communicate(stdin, timeout=timeout_s)
        return Finished(process.returncode, stdout, stderr)

    def environment(self, failpoints: str) -> dict[str, str]:
        """As of the present release, with the other source."""
        return {**super().environment(failpoints), "PYTHONPATH": str(self._source)}


class NextRelease:
    """The release between enter and exit; `directory` is for it alone."""

    def __init__(self, directory: Path, line: CommandLine) -> None:
        self._directory = directory
        self.line = NextReleaseLine(line, directory / "src")
        self._images = line.home / "images"
        text = (CHECKOUT / "images" / f"{IMAGE}.toml").read_text()
        self.former_image = parse_definition(text, source=f"{IMAGE}.toml").image_id
        # Several tests may share the images of this machine.
        self._text = f'{text}\n[[directories]]\npath = "/opt/next-release-{os.getpid()}"\n'
        self.image = parse_definition(self._text, source=f"{IMAGE}.toml").image_id

    def __enter__(self) -> NextRelease:
        """Make the source and the image."""
        shutil.copytree(
            CHECKOUT / "src",
            self._directory / "src",
            ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"),
        )
        metadata = self._directory / "src" / f"grampus-{VERSION}.dist-info" / "METADATA"
        metadata.parent.mkdir()
        metadata.write_text(f"Metadata-Version: 2.1\nName: grampus\nVersion: {VERSION}\n")
        (self._directory / "pyproject.toml").touch()
        shutil.copytree(CHECKOUT / "images", self._directory / "images")
        (self._directory / "images" / f"{IMAGE}.toml").write_text(self._text)
        for name in ("catalog", "dataplane", "monitoring", "suites"):
            (self._directory / name).symlink_to(CHECKOUT / name)
        self._make_image()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Remove the image; its hosts are gone."""
        shutil.rmtree(self._images / self.image)

    def image_mib(self) -> int:
        """What the image takes on disk."""
        used = subprocess.run(
            ["du", "-sm", str(self._images / self.image)],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        return int(used.stdout.split()[0])

    def _make_image(self) -> None:
        made = self._images / self.image
        # Of hard links: a file that a test changes here would be changed in the present image.
        subprocess.run(
            ["cp", "-al", str(self._images / self.former_image), str(made)], timeout=60, check=True
        )
        for pattern in _UNNEEDED:
            for path in made.joinpath("root").glob(pattern):
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                else:
                    path.unlink()
        record = json.loads((made / "image.json").read_text())
        (made / "image.json").unlink()
        (made / "image.json").write_text(json.dumps({**record, "id": self.image}))
