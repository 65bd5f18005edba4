"""Images in RBD namespaces, as they are named everywhere: NAMESPACE/IMAGE.

One without a slash is in the default namespace of its pool. POOL/NAMESPACE/IMAGE is how `rbd`
spells it, so a pool and such a name are joined by a slash. A *place* is POOL/NAMESPACE, or POOL.
"""

from __future__ import annotations

# For scripts that make an image: the pool's context in a namespace, which is made if need be.
ENTER_NAMESPACE = """
def enter(pool, namespace):
    if namespace:
        try:
            rbd.RBD().namespace_create(pool, namespace)
        except rbd.ImageExists:
            pass
        pool.set_namespace(namespace)
"""


def split_image(image: str) -> tuple[str, str]:
    """The namespace (empty: the default one) and the name of an image in it."""
    namespace, _, name = image.rpartition("/")
    return namespace, name


def join_image(namespace: str, name: str) -> str:
    """An image of that name in a namespace; empty: the default one."""
    return f"{namespace}/{name}" if namespace else name


def place_of(pool: str, image: str) -> str:
    """Where an image is."""
    return join_place(pool, split_image(image)[0])


def join_place(pool: str, namespace: str) -> str:
    """The place of a namespace of a pool; empty: the default one."""
    return f"{pool}/{namespace}" if namespace else pool


def split_place(place: str) -> tuple[str, str]:
    """The pool and the namespace (empty: the default one) of a place."""
    pool, _, namespace = place.partition("/")
    return pool, namespace
