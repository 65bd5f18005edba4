"""The nouns of `grampus`, and the module that each is in."""

from __future__ import annotations

from grampus.cli.noun import Noun

app = Noun(
    "grampus",
    "MySQL databases on Ceph block storage: create, operate and measure them.\n\nStart with "
    "[bold]grampus lab up[/bold], then [bold]grampus db create demo --size 4G[/bold].",
    {
        "serve": "grampus.cli.serve",
        "lab": "grampus.cli.lab",
        "db": "grampus.cli.db",
        "volume": "grampus.cli.volume",
        "site": "grampus.cli.site",
        "host": "grampus.cli.host",
        "bench": "grampus.cli.bench",
        "report": "grampus.cli.bench",
        "operation": "grampus.cli.operation",
        "state": "grampus.cli.state",
    },
    completes=True,
)
