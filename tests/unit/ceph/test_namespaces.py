from __future__ import annotations

import pytest

from grampus.ceph.namespaces import join_image, join_place, place_of, split_image, split_place


@pytest.mark.parametrize(
    ("image", "namespace", "name", "place"),
    [("db-shop", "", "db-shop", "p"), ("shop.1/db-shop", "shop.1", "db-shop", "p/shop.1")],
)
def test_images_and_their_places(image: str, namespace: str, name: str, place: str) -> None:
    assert split_image(image) == (namespace, name)
    assert join_image(namespace, name) == image
    assert place_of("p", image) == join_place("p", namespace) == place
    assert split_place(place) == ("p", namespace)
    # As rbd spells it.
    assert f"p/{image}" == f"{place}/{name}"
