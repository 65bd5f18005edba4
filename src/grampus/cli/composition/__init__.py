"""The composition root: which part is built from which.

`session` has what most commands need, `lab` what needs neither volumes nor databases, and the
others what single features need, so that a command imports no more than it uses.
"""
