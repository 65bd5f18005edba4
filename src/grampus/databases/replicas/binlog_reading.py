"""Binary logs of a running server, read by the program that comes with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from grampus.databases.administrator import Administrator
from grampus.databases.layout import VOLUME_IN_DAEMON
from grampus.databases.model import FlavourName
from grampus.databases.replicas.histories import LogHead, parse_log

READERS: Mapping[FlavourName, str] = {"mysql": "mysqlbinlog", "mariadb": "mariadb-binlog"}
DIRECTORY = VOLUME_IN_DAEMON / "binlog"
# The transactions after a server's start among which the first one of each source is looked for.
HEAD_COMMITS = 1000
# A log holds 256 MiB at most, and is read at 50 MB/s and more.
READ_TIMEOUT_S = 120.0
# Answers as `parse_log` reads it. Arguments: the reader, the log, where it ends now, after how many
# transactions to end, and from which number on of which source to tell of them (empty: of all).
# The reader is ended by the pipe once enough was read, so its own end counts only without that.
_SCRIPT = r"""
reader=$1 log=$2 end=$3 most=$4 source=$5 number=$6
{ TZ=UTC "$reader" --stop-position="$end" "$log" && echo '#grampus: end'; } |
awk -v most="$most" -v source="$source" -v number="$number" '
function tell(gtid, stamp,    parts, n, own, at) {
  if (source != "") {
    n = split(gtid, parts, gtid ~ /:/ ? ":" : "-")
    at = parts[n] + 0
    own = gtid ~ /:/ ? tolower(substr(gtid, 1, length(gtid) - length(parts[n]) - 1)) : parts[1]
    if (own != source || at < number + 0) return
  }
  print "commit " gtid " " stamp
  if (++told >= most) { print "end"; over = 1; exit }
}
/^#[0-9][0-9][0-9][0-9][0-9][0-9] .*\tStart: binlog v / {
  print "begun " substr($1, 2) " " $2
  if (/ at startup/) print "start"
  next
}
/^#[0-9][0-9][0-9][0-9][0-9][0-9] .*\tGTID [0-9]+-[0-9]+-[0-9]+/ {
  stamp = substr($1, 2) " " $2
  sub(/.*\tGTID /, ""); sub(/ .*/, ""); tell($0, stamp); next
}
/^#[0-9][0-9][0-9][0-9][0-9][0-9] .*\tGTID\t.*original_committed_timestamp=/ {
  sub(/.*original_committed_timestamp=/, ""); sub(/[^0-9].*/, ""); commit = $0; next
}
/^SET @@SESSION.GTID_NEXT= / && commit != "" {
  split($0, quoted, "\047"); tell(quoted[2], commit); commit = ""
}
/^#grampus: end/ { print "end"; over = 1; exit }
'
"""


@dataclass(frozen=True)
class LogFile:
    """A binary log as its server lists it."""

    name: str
    size_bytes: int


def observe_logs(administrator: Administrator) -> list[LogFile]:
    """The server's binary logs, oldest first, and how long each is now. Raises as `query`."""
    rows = administrator.query("SHOW BINARY LOGS")
    return [LogFile(row[0], int(row[1])) for row in rows]


def observe_log(
    administrator: Administrator,
    log: LogFile,
    *,
    most: int,
    source: str = "",
    from_number: int = 0,
) -> LogHead:
    """The first `most` transactions of a log, of one source from a number on if that is named.

    Raises GrampusError with code `unreadable-log`, and what `Host.run` raises.
    """
    result = administrator.host.run(
        [
            *("bash", "-c", _SCRIPT, "bash", READERS[administrator.flavour]),
            str(DIRECTORY / log.name),
            str(log.size_bytes),
            str(most),
            source,
            str(from_number),
        ],
        timeout_s=READ_TIMEOUT_S,
        check=False,
        daemon=administrator.daemon,
    )
    return parse_log(log.name, result.stdout)
