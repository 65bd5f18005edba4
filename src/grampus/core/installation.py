"""Where Grampus finds the files that come with it: in a checkout, or in the Debian package.

                  checkout                             Debian package
catalog, images,
monitoring,
suites, commit    CHECKOUT/                            /usr/share/grampus/
volumed           CHECKOUT/dataplane/target/release/   /usr/lib/grampus/

No other module derives a path from its own. `scripts/package/` puts the files of the package
where this module looks for them.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

# Directories of a checkout that the program reads at run time.
DATA_DIRECTORIES = ("catalog", "images", "monitoring", "suites")
# In the package only: the commit that it was built from, as 40 hex digits.
COMMIT_FILE = "commit"
VOLUMED_VARIABLE = "GRAMPUS_VOLUMED"


class Installation(NamedTuple):
    """Where the files of one installation are; `data` has DATA_DIRECTORIES."""

    data: Path
    volumed: Path  # absent in a checkout until it is built


PACKAGE = Installation(Path("/usr/share/grampus"), Path("/usr/lib/grampus/volumed"))


def find_installation(packages: Path) -> Installation:
    """The installation whose Python packages are in the directory `packages`."""
    checkout = packages.parent
    if (checkout / "pyproject.toml").is_file():
        return Installation(checkout, checkout / "dataplane" / "target" / "release" / "volumed")
    return PACKAGE


INSTALLATION = find_installation(Path(__file__).resolve().parents[2])


def find_volumed() -> Path:
    """The built volumed: `$GRAMPUS_VOLUMED`, or that of this installation; it may be absent."""
    return Path(os.environ.get(VOLUMED_VARIABLE) or INSTALLATION.volumed).absolute()
