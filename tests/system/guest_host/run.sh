# QEMU of a virtual machine, in the root of the image that has it.
#
#   GUEST=... DISK=... ADDRESS=... MODULES=... unshare --mount --propagation private --pid --fork \
#     --kill-child sh -eu run.sh COMMAND-LINE-OF-QEMU
#
# GUEST is the root of the image; DISK has the machine's `disk`, which QEMU sees as /mnt/disk. ADDRESS
# is the machine's, MODULES are what its kernel needs before it has its root.

root=$DISK/qemu
mkdir -p "$root" "$DISK/qemu-upper" "$DISK/qemu-work"
mount -t overlay -o "lowerdir=$GUEST,upperdir=$DISK/qemu-upper,workdir=$DISK/qemu-work" overlay "$root"
mount --rbind /dev "$root/dev"
mount -t proc proc "$root/proc"
mount -t tmpfs tmpfs "$root/tmp"
touch "$root/mnt/disk"
mount --bind "$DISK/disk" "$root/mnt/disk"

version=$(ls "$root/usr/lib/modules")
tree=$root/tmp/tree
mkdir -p "$tree/bin" "$tree/modules"
cp "$root/usr/bin/busybox" "$tree/bin/busybox"
: > "$tree/modules/order"
for module in $MODULES; do
  chroot "$root" modprobe --set-version "$version" --show-depends "$module" |
    while read -r kind file _; do
      name=$(basename "$file" .xz)
      [ "$kind" = insmod ] && [ ! -e "$tree/modules/$name" ] || continue
      chroot "$root" xz -dc "$file" > "$tree/modules/$name"
      echo "$name" >> "$tree/modules/order"
    done
done
cat > "$tree/init" << END
#!/bin/busybox sh
set -eu
/bin/busybox mkdir -p /proc /sys /dev /root
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
while read -r module; do insmod "/modules/\$module"; done < /modules/order
ip link set lo up
ip address add $ADDRESS dev eth0
ip link set eth0 up
mount -t xfs -o noatime /dev/vda /root
mount -o move /dev /root/dev
umount /sys /proc
exec switch_root /root /lib/systemd/systemd
END
chmod 0755 "$tree/init"
(cd "$tree" && find . | chroot "$root" sh -c 'cd /tmp/tree && cpio --quiet -o -H newc') > "$root/tmp/initramfs"
ln -s "/boot/vmlinuz-$version" "$root/tmp/kernel"
exec chroot "$root" "$@"
