"""A program that maps the owners of files in a container's bind mounts.

runc runs it as a hook, in the container's mount namespace, before it starts the container's first
process. It replaces bind mounts by idmapped ones (mount_setattr(2)), which end with the container.
runc does that itself from release 1.2 on.

    idmap_mounts_hook.py OWNER UID GID NOTE MOUNT...
    idmap_mounts_hook.py process PID NOTE MOUNT...

What user and group OWNER own on disk belongs to user UID and group GID at each MOUNT. If the kernel
or a file system cannot do that, the program writes the error to NOTE and fails, and runc starts
nothing. The second form takes the user namespace of the process PID, and ends that process: nobody
in a `chroot` can make a user namespace (user_namespaces(7)).

The program imports nothing of Grampus, because it runs without Grampus's search path. Nor does it
import pathlib, which would take twice as long: each start of a server waits for this program.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

# The numbers of these system calls are the same on every architecture.
_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442
_AT_FDCWD, _AT_EMPTY_PATH = -100, 0x1000
_OPEN_TREE_CLONE, _MOVE_MOUNT_F_EMPTY_PATH = 1, 4
_MOUNT_ATTR_IDMAP = 0x00100000
_CLONE_NEWUSER = 0x10000000
_MNT_DETACH = 2

_libc = ctypes.CDLL(None, use_errno=True)


class _MountAttr(ctypes.Structure):
    """`struct mount_attr` of linux/mount.h."""

    _fields_ = (
        ("attr_set", ctypes.c_uint64),
        ("attr_clr", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns_fd", ctypes.c_uint64),
    )


def render_id_map(owner: int, mapped: int) -> str:
    """An id map (user_namespaces(7)): root stays root, and `owner` is seen as `mapped`.

    Nobody else is known there: files of others cannot be changed.
    """
    return f"0 0 1\n{owner} {mapped} 1\n"


def open_user_namespace(uid_map: str, gid_map: str) -> int:
    """A descriptor of a new user namespace with these maps. Raises OSError."""
    told, tell = os.pipe()
    hold, release = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(release)
        # Its number in the machine's /proc, not the one in the container's PID namespace.
        number = int(_read("/proc/self/stat").split()[0])
        failed = _libc.unshare(_CLONE_NEWUSER) != 0
        os.write(tell, str(-ctypes.get_errno() if failed else number).encode())
        os.read(hold, 1)  # until the parent has opened the namespace, or has ended
        os._exit(0)
    os.close(tell)
    os.close(hold)
    try:
        number = int(os.read(told, 32) or b"-5")  # EIO: the child ended
        if number < 0:
            raise OSError(-number, f"unshare: {os.strerror(-number)}")
        for name, id_map in (("uid_map", uid_map), ("gid_map", gid_map)):
            try:
                _write(f"/proc/{number}/{name}", id_map)
            except OSError as error:
                raise OSError(error.errno, f"{name}: {error.strerror}") from error
        return os.open(f"/proc/{number}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(told)
        os.close(release)
        os.waitpid(child, 0)


def map_mount(mount: str, user_namespace: int) -> None:
    """Replace the mount at this path by the same one with mapped owners. Raises OSError."""
    path = mount.encode()
    tree = _call("open_tree", _OPEN_TREE, _AT_FDCWD, path, _OPEN_TREE_CLONE | os.O_CLOEXEC)
    try:
        attributes = _MountAttr(attr_set=_MOUNT_ATTR_IDMAP, userns_fd=user_namespace)
        _call(
            "mount_setattr",
            _MOUNT_SETATTR,
            *(tree, b"", _AT_EMPTY_PATH),
            *(ctypes.byref(attributes), ctypes.sizeof(attributes)),
        )
        _require(_libc.umount2(path, _MNT_DETACH), "umount2")
        _call("move_mount", _MOVE_MOUNT, tree, b"", _AT_FDCWD, path, _MOVE_MOUNT_F_EMPTY_PATH)
    finally:
        os.close(tree)


def _read(path: str) -> str:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return os.read(descriptor, 4096).decode()
    finally:
        os.close(descriptor)


def _write(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def _call(name: str, number: int, *arguments: object) -> int:
    # The registers are 64 bits wide, and ctypes would pass 32 of them.
    words = (ctypes.c_long(word) if isinstance(word, int) else word for word in arguments)
    return _require(_libc.syscall(ctypes.c_long(number), *words), name)


def _require(result: int, name: str) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")
    return result


def main(arguments: list[str]) -> int:
    """Map the owners at all mounts; 1: that failed, and the note says why."""
    if arguments[0] == "process":
        _, holder, note, *mounts = arguments
        owner = uid = gid = ""
    else:
        owner, uid, gid, note, *mounts = arguments
        holder = ""
    try:
        if holder:
            user_namespace = os.open(f"/proc/{holder}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
        else:
            maps = (render_id_map(int(owner), int(number)) for number in (uid, gid))
            user_namespace = open_user_namespace(*maps)
        for mount in mounts:
            map_mount(mount, user_namespace)
    except OSError as error:
        _write(note, f"{error.errno} {error.strerror}\n")
        sys.stderr.write(f"The owners of files cannot be mapped: {error.strerror}\n")
        return 1
    finally:
        if holder:
            os.kill(int(holder), signal.SIGKILL)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
