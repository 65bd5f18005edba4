# The disk of a virtual machine: the root of a host image with the files of one host over it.
#
#   ROOT=... DISK=... GUEST=... SIZE=... unshare --mount --propagation private sh -eu make-disk.sh
#
# ROOT is that of the host image; DISK has the files of the host in `upper` (systemd_host_disk.py) and
# gets the disk as `disk`; GUEST is the root of the image with QEMU, whose kernel the machine boots.

mkdir -p "$DISK/mounted"
mount -t overlay -o "lowerdir=$ROOT,upperdir=$DISK/upper,workdir=$DISK/work" overlay "$DISK/root"
truncate --size "$SIZE" "$DISK/disk"
# The host's own mkfs: this machine need not have one.
touch "$DISK/root/mnt/disk"
mount --bind "$DISK/disk" "$DISK/root/mnt/disk"
chroot "$DISK/root" mkfs.xfs -q /mnt/disk
umount "$DISK/root/mnt/disk"
mount -o loop "$DISK/disk" "$DISK/mounted"
cp -a "$DISK/root/." "$DISK/mounted/"
mkdir -p "$DISK/mounted/usr/lib/modules"
cp -a "$GUEST"/usr/lib/modules/* "$DISK/mounted/usr/lib/modules/"
umount "$DISK/mounted"
