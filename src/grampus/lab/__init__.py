"""The embedded cluster on this one machine."""
