"""A LUKS2 header for an image, written by a script on a host with what librbd itself uses.

`rbd encryption format` derives the key of the header's key slot with Argon2id, as slowly as
libcryptsetup chooses: 10 s of CPU time when the image is made, 1 to 2 s and up to 1 GiB of memory
each time it is opened. That protects passphrases that people choose. A volume's is 256 random bits,
which nobody can guess at any speed. So this script writes the same header with PBKDF2, of as few
iterations as libcryptsetup allows, which takes 0.1 s and then nothing.

Sources: librbd/crypto/luks/Header.cc and FormatRequest.cc of Ceph 20.2, for what the header of an
image is; libcryptsetup.h of cryptsetup 2.0 and later, for the interface.
"""

from __future__ import annotations

from grampus.ceph.connecting import CONNECT

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
