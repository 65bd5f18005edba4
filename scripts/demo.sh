#!/usr/bin/env bash
# The main job, to a visible result: a Ceph cluster, a MySQL on it, measured. The lab keeps
# running; everything is done again, or found as it is, when this runs again.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
began=$SECONDS
say() { if [ -t 1 ]; then printf '\n\033[1m%s\033[0m\n' "$1"; else printf '\n%s\n' "$1"; fi; }

say "1/4  The lab: a real Ceph cluster on this machine"
./grampus lab up

say "2/4  A MySQL database on an RBD volume"
if ./grampus db show demo >/dev/null 2>&1; then
  ./grampus db start demo
else
  # Small memory keeps the buffer pool, and with it the data set to load, small.
  ./grampus db create demo --size 4G --memory 320M
fi

say "3/4  The first measurement: Ceph against this machine's own disk"
./grampus bench run quick --db demo

say "4/4  What is running now"
./grampus lab status

took=$((SECONDS - began))
say "Done in $((took / 60)) min $((took % 60)) s. Try:"
cat <<'END'
  ./grampus db connect demo -e 'select count(*) from sbtest.sbtest1'
  ./grampus volume show demo
  ./grampus db resize demo --size 5G    grows it while it is used
  ./grampus lab fault kill-daemon osd-1     and then: ./grampus lab fault heal
  ./grampus lab down                        takes everything off this machine again
END
