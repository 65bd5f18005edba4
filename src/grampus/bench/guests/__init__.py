"""A database's server in a virtual machine under QEMU, its disk an RBD image."""
