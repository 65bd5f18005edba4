"""RBD images attached to hosts."""
