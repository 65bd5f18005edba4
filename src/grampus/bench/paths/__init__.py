"""The suite `paths`: the ways to one RBD image, side by side in one run."""
