# Makes the namespaces of one host, one after the other, and becomes its systemd.
#
#   LINK=... MAC=... BRIDGE=... ADDRESS=... GATEWAY=... ROOT=... DISK=... HOST_GROUPS=... CGROUP_MOUNTS=... \
#     unshare --net sh -eu boot.sh network
#
# The process that starts it must be in the network namespace of BRIDGE. HOST_GROUPS are the host's
# directories in all trees of control groups; CGROUP_MOUNTS are these trees, one a line:
# TARGET TYPE OPTIONS. Everything is within the namespaces, so it ends with their last process,
# except the groups.

case "$1" in
  network)
    ip link add eth0 address "$MAC" type veth peer name "$LINK" netns "$PPID"
    nsenter --net="/proc/$PPID/ns/net" ip link set "$LINK" master "$BRIDGE" up
    ip link set lo up
    ip address add "$ADDRESS" dev eth0
    ip link set eth0 up
    [ -z "$GATEWAY" ] || ip route add default via "$GATEWAY"
    exec unshare --mount --propagation private --pid --uts --ipc --fork --kill-child \
      sh -eu "$0" groups
    ;;
  groups)
    # 0 is the process that writes. The namespace's root is where its first process is.
    for group in $HOST_GROUPS; do
      echo 0 > "$group/cgroup.procs"
    done
    exec unshare --cgroup sh -eu "$0" root
    ;;
  root)
    host=$DISK/root
    mount -t overlay -o "lowerdir=$ROOT,upperdir=$DISK/upper,workdir=$DISK/work" overlay "$host"
    mount --bind "$DISK/var-lib-grampus" "$host/var/lib/grampus"
    mount --bind "$DISK/dev" "$host/dev"
    mount -t tmpfs -o mode=755 tmpfs "$host/run"
    mount -t tmpfs -o mode=1777 tmpfs "$host/tmp"
    mount -t proc proc "$host/proc"
    mount -t sysfs sysfs "$host/sys"
    # Settings of the kernel are the machine's, except those of the network namespace.
    mount --bind "$host/proc/sys" "$host/proc/sys"
    mount --bind "$host/proc/sys/net" "$host/proc/sys/net"
    mount -o remount,bind,ro "$host/proc/sys"
    if [ -e "$host/proc/sysrq-trigger" ]; then
      mount --bind /dev/null "$host/proc/sysrq-trigger"
    fi
    case "$CGROUP_MOUNTS" in
      "/sys/fs/cgroup "*) ;;
      *) mount -t tmpfs -o mode=755 tmpfs "$host/sys/fs/cgroup" ;;
    esac
    echo "$CGROUP_MOUNTS" | while read -r target type options; do
      mkdir -p "$host$target"
      mount -t "$type" -o "$options" "$type" "$host$target"
    done
    cd "$host"
    pivot_root . mnt
    umount -l /mnt
    # Programs on hosts attach devices and make mounts that services are to see.
    mount --make-rshared /
    # With this variable systemd leaves alone what a container's manager has set up.
    exec env -i container=test PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd
    ;;
esac
