"""The published experiments, measured on a lab of their own, as pages of docs/experiments."""
