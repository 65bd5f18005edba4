"""Host images: root file systems built from definitions, cached by the digest of each."""

from grampus.lab.images.cache import HostImage, HostImages
from grampus.lab.images.definition import ImageDefinition, load_definitions

__all__ = ["HostImage", "HostImages", "ImageDefinition", "load_definitions"]
