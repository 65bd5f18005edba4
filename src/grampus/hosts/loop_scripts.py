"""What `losetup` cannot do, as Python programs for a host.

Listing, `losetup` asks every loop device of the machine, and the kernel then asks the file under
it: of one volume that stands still whoever looks for another would wait. And Debian 12's
(util-linux 2.38) knows of no references, which the kernel has kept in `lo_file_name` all along.
"""

from __future__ import annotations

# The kernel counts what a disk holds (`diskseq`, Linux 5.15 and later): a device that was given to
# another file has another number. Empty: the kernel does not tell it.
_SEQUENCE = """
def sequence_of(device):
    number = bytearray(8)
    try:
        fcntl.ioctl(device, 0x80081280, number)  # BLKGETDISKSEQ
    except OSError:
        return ""
    return str(int.from_bytes(number, sys.byteorder))
"""
# Argument: a file, or a directory with a slash at its end. Prints, of the devices over it or over
# files below it, what `losetup --list --json --output NAME,REF,BACK-FILE` does, and the sequence.
# Of a file that was unmounted no path is left to compare. A device that was attached in another
# root of a host (that of an older host image: `remote/host_root.py`) has that root before its path,
# for who asks from outside of it.
LIST_LOOPS = (
    "import errno, fcntl, json, os, pathlib, re, sys\n"
    + _SEQUENCE
    + r"""
where, no_path = sys.argv[1], ("/", "/ (deleted)")
GET_STATUS64, NAME_AT, NAME_BYTES, INFO_BYTES = 0x4C05, 56, 64, 232
found = []
for attached in sorted(pathlib.Path("/sys/block").glob("loop*/loop")):
    name = f"/dev/{attached.parent.name}"
    info, reference, sequence = bytearray(INFO_BYTES), None, ""
    try:
        file = (attached / "backing_file").read_text().strip()
        file = re.sub(r"^(/.+)/roots/[^/]+/root(?=\1/data/)", "", file)
        if where.endswith("/"):
            is_meant = file.startswith(where)
        else:
            is_meant = file in (where, f"{where} (deleted)", *no_path)
        if not is_meant:
            continue
        device = os.open(name, os.O_RDONLY)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENODEV, errno.ENXIO):
            raise  # who takes such a device for none would take its file away
        continue  # detached meanwhile
    try:
        sequence = sequence_of(device)
        fcntl.ioctl(device, GET_STATUS64, info)
        text = bytes(info[NAME_AT : NAME_AT + NAME_BYTES]).split(b"\0", 1)[0]
        reference = text.decode(errors="replace")
    except OSError:
        pass
    finally:
        os.close(device)
    found.append({"name": name, "ref": reference, "back-file": file, "sequence": sequence})
print(json.dumps({"loopdevices": found}))
"""
)
# Arguments: file, reference, offset and size in bytes (0: to the end), and `durable` or `flushed`.
# Prints the device, which is configured in one call (linux/loop.h: struct loop_config), with direct
# I/O to the file. With `durable`, the file is open with O_DSYNC: FUSE passes the flag on with each
# write, for which `losetup` has no option. Another process may take the free device first, and give
# it back or remove it: then there is another one.
ATTACH_LOOP = """
import errno, fcntl, os, struct, sys, time
CONFIGURE, GET_FREE, DIRECT_IO = 0x4C0A, 0x4C82, 16
TAKEN = (errno.EBUSY, errno.ENXIO, errno.ENODEV, errno.ENOENT)
file = os.open(sys.argv[1], os.O_RDWR | (os.O_DSYNC if sys.argv[5] == "durable" else 0))
control = os.open("/dev/loop-control", os.O_RDWR)
info = struct.pack(
    "=QQQQQIIII64s64s32s2Q",
    *(0, 0, 0, int(sys.argv[3]), int(sys.argv[4]), 0, 0, 0, DIRECT_IO),
    *(sys.argv[2].encode(), b"", b"", 0, 0),
)
config = struct.pack("=II", file, 0) + info + bytes(64)
for _ in range(100):
    name, device = f"/dev/loop{fcntl.ioctl(control, GET_FREE)}", -1
    try:
        device = os.open(name, os.O_RDWR)
        fcntl.ioctl(device, CONFIGURE, config)
    except OSError as error:
        if error.errno not in TAKEN:
            raise
        time.sleep(0.02)
    else:
        print(name)
        break
    finally:
        if device >= 0:
            os.close(device)
else:
    sys.exit("no loop device stayed free")
"""
# Arguments: a device and the sequence that it was listed with, again and again. Detaches each that
# is still the same. Its number may have been given to another file meanwhile, of whoever took it;
# while it is open here, that cannot happen. Flushes pass on it again: whoever has the number next,
# and does not look, would lose his.
DETACH_LOOPS = (
    "import errno, fcntl, os, sys\n"
    + _SEQUENCE
    + """
CLR_FD, GONE = 0x4C01, (errno.ENOENT, errno.ENODEV, errno.ENXIO)
for name, listed in zip(sys.argv[1::2], sys.argv[2::2]):
    device = -1
    try:
        device = os.open(name, os.O_RDONLY)
        if sequence_of(device) != listed:
            continue
        try:
            setting = f"/sys/block/{os.path.basename(name)}/queue/write_cache"
            with open(setting, "r+") as file:
                if file.read().strip() != "write back":
                    file.write("write back")
        except OSError:
            pass
        fcntl.ioctl(device, CLR_FD)
    except OSError as error:
        if error.errno not in GONE:
            raise
    finally:
        if device >= 0:
            os.close(device)
"""
)
