"""What drives load: command lines, config files, and outputs made results or reasons.

All of it is pure. Whoever runs a driver hands its output over as it came, cut off or not.
"""
