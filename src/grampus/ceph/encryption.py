"""LUKS2 inside RBD images, through commands on any reachable host.

The passphrase of an image goes to a command through its standard input: it is on no command line
and in no file. To open an image of an earlier Grampus takes seconds of CPU time, and up to 1 GiB of
memory for a moment: its header is one of `rbd encryption format`.
"""

from __future__ import annotations

from pydantic import SecretStr

from grampus.ceph.cluster import CephCluster
from grampus.ceph.connecting import CONNECT
from grampus.ceph.namespaces import split_image

# rbd opens it as it would any file with a passphrase.
STDIN = "/dev/stdin"
FORMAT_TIMEOUT_S = 120.0
# `rbd encryption format` derives the key of the header's key slot with Argon2id, as slowly as
# libcryptsetup chooses: 10 s of CPU time when the image is made, 1 to 2 s and up to 1 GiB of memory
# each time it is opened. That protects passphrases that people choose. A volume's is 256 random
# bits, which nobody can guess at any speed. So this script writes the same header with PBKDF2, with
# as few iterations as libcryptsetup allows, which takes 0.1 s and then nothing.
# Sources: librbd/crypto/luks/Header.cc and FormatRequest.cc of Ceph 20.2, for what the header of an
# image is; libcryptsetup.h of cryptsetup 2.0 and later, for the interface.
# Arguments: pool, namespace, image. The passphrase is on the standard input.
FORMAT_LUKS2 = f"""
{CONNECT}
import ctypes, sys, rbd
HEADER_BYTES, CHUNK_BYTES = 16 << 20, 4 << 20
class Pbkdf(ctypes.Structure):
    _fields_ = [("type", ctypes.c_char_p), ("hash", ctypes.c_char_p),
        ("time_ms", ctypes.c_uint32), ("iterations", ctypes.c_uint32),
        ("max_memory_kb", ctypes.c_uint32), ("parallel_threads", ctypes.c_uint32),
        ("flags", ctypes.c_uint32)]
class Parameters(ctypes.Structure):
    _fields_ = [("pbkdf", ctypes.POINTER(Pbkdf)), ("integrity", ctypes.c_char_p),
        ("integrity_params", ctypes.c_void_p), ("data_alignment", ctypes.c_size_t),
        ("data_device", ctypes.c_char_p), ("sector_size", ctypes.c_uint32),
        ("label", ctypes.c_char_p), ("subsystem", ctypes.c_char_p)]
NO_BENCHMARK = 2
library = ctypes.CDLL("libcryptsetup.so.12")
library.crypt_get_data_offset.restype = ctypes.c_uint64
def call(name, *arguments):
    code = getattr(library, name)(*arguments)
    if code < 0:
        sys.exit(f"{{name}}: {{os.strerror(-code)}}")
def size(number):
    return ctypes.c_size_t(number)
def make_header(passphrase):
    file = os.memfd_create("luks2")
    os.ftruncate(file, 2 * HEADER_BYTES)
    device = ctypes.c_void_p()
    call("crypt_init", ctypes.byref(device), f"/proc/self/fd/{{file}}".encode())
    pbkdf = Pbkdf(b"pbkdf2", b"sha256", 0, 1000, 0, 0, NO_BENCHMARK)
    parameters = Parameters(pbkdf=ctypes.pointer(pbkdf), sector_size=4096)
    call("crypt_set_pbkdf_type", device, ctypes.byref(pbkdf))
    call("crypt_format", device, b"LUKS2", b"aes", b"xts-plain64", None, None, size(64),
        ctypes.byref(parameters))
    call("crypt_keyslot_add_by_volume_key", device, ctypes.c_int(0), None, size(0), passphrase,
        size(len(passphrase)))
    if library.crypt_get_data_offset(device) * 512 != HEADER_BYTES:
        sys.exit("libcryptsetup made a header of another size")
    library.crypt_free(device)
    return os.pread(file, HEADER_BYTES, 0)
pool_name, namespace, name = sys.argv[1:]
header = make_header(sys.stdin.buffer.read())
with connect() as cluster, cluster.open_ioctx(pool_name) as pool:
    pool.set_namespace(namespace)
    with rbd.Image(pool, name) as image:
        # Last what makes it a header: cut off before, the image is none that can be opened.
        for start in range(HEADER_BYTES - CHUNK_BYTES, -1, -CHUNK_BYTES):
            image.write(header[start : start + CHUNK_BYTES], start)
        image.flush()
"""


class RbdEncryption:
    """The encrypted images of one cluster. Sizes are of what is in them, without the header."""

    def __init__(self, cluster: CephCluster) -> None:
        self._cluster = cluster

    def format(self, pool: str, image: str, passphrase: SecretStr) -> None:
        """Write a new LUKS2 header, with a new key, to an image that nobody has open.

        What the image held cannot be read any more.
        """
        namespace, name = split_image(image)
        argv = ["python3", "-c", FORMAT_LUKS2, pool, namespace, name]
        self._run(argv, passphrase, timeout_s=FORMAT_TIMEOUT_S)

    def resize(self, pool: str, image: str, size_bytes: int, passphrase: SecretStr) -> None:
        """Grow what the image holds to that size; it may be in use.

        Raises GrampusError when it is bigger already.
        """
        size = ("--size", f"{size_bytes}B")
        opened = ("--encryption-format", "luks", "--encryption-passphrase-file", STDIN)
        # Whoever has the image open does the resize, and takes the size for that of its content:
        # so must `rbd` when nobody has.
        argv = ["rbd", "resize", "--no-progress", *size, *opened, f"{pool}/{image}"]
        self._run(argv, passphrase, timeout_s=FORMAT_TIMEOUT_S)

    def _run(self, argv: list[str], passphrase: SecretStr, *, timeout_s: float) -> None:
        secret = passphrase.get_secret_value()
        self._cluster.runner.run(argv, stdin=secret, timeout_s=timeout_s)
