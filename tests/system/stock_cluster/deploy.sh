# A Ceph cluster as a manual of Ceph deploys one, with Ceph's own programs and nothing of Grampus:
# one MON, one MGR and three OSDs, whose copies are in three racks. Runs in the root of an image;
# daemons end with the PID namespace that it is the first process of.
#
#   ADDRESS=10.0.0.1 FSID=... OSD_SIZE=6G sh -eu deploy.sh
#
# Writes /ready when the cluster serves, and then waits.

cat > /etc/ceph/ceph.conf <<END
[global]
fsid = $FSID
mon host = $ADDRESS
public addr = $ADDRESS
auth client required = cephx
auth cluster required = cephx
auth service required = cephx
auth allow insecure global id reclaim = false
mon data avail warn = 5
mon data avail crit = 2
osd memory target = 939524096
bluestore block size = ${OSD_SIZE}
log file = /var/log/ceph/\$name.log
END
admin=/etc/ceph/ceph.client.admin.keyring first=/run/first.keyring
ceph-authtool --create-keyring "$first" --gen-key -n mon. --cap mon 'allow *' > /dev/null
ceph-authtool --create-keyring "$admin" --gen-key -n client.admin \
  --cap mon 'allow *' --cap osd 'allow *' --cap mgr 'allow *' --cap mds 'allow *' > /dev/null
ceph-authtool "$first" --import-keyring "$admin" > /dev/null
monmaptool --create --fsid "$FSID" --add a "$ADDRESS" --enable-all-features /run/monmap > /dev/null
mkdir -p /var/lib/ceph/mon/ceph-a /var/lib/ceph/mgr/ceph-a
ceph-mon --mkfs --id a --monmap /run/monmap --keyring "$first"
ceph-mon --foreground --id a &
ceph auth get-or-create mgr.a mon 'allow profile mgr' osd 'allow *' mds 'allow *' \
  > /var/lib/ceph/mgr/ceph-a/keyring
ceph-mgr --foreground --id a &
for n in 0 1 2; do
  directory=/var/lib/ceph/osd/ceph-$n uuid=$(cat /proc/sys/kernel/random/uuid)
  secret=$(ceph-authtool --gen-print-key)
  mkdir -p "$directory"
  printf '{"cephx_secret": "%s"}' "$secret" | ceph osd new "$uuid" -i - > /dev/null
  ceph-authtool --create-keyring "$directory/keyring" --name "osd.$n" --add-key "$secret" > /dev/null
  ceph-osd --mkfs --id "$n" --osd-uuid "$uuid" --osd-objectstore bluestore
  ceph-osd --foreground --id "$n" --crush-location "root=default rack=rack-$n host=store-$n" &
done
ceph osd crush rule create-replicated by-rack default rack
ceph osd pool create databases 16 16 replicated by-rack
ceph osd pool set databases size 3
ceph osd pool set databases min_size 2
rbd pool init databases
# Not HEALTH_OK: a module of Debian's MGR of release 18 lacks something.
while ceph health detail | grep -q -e PG_ -e OSD_; do sleep 0.5; done
touch /ready
wait
