"""Faults drawn at random against a database under `grampus serve`: what was lost, and for how long.

`draws` draws faults from a seed, `trial` carries one out on a lab, `summary` adds them up. Each
trial is kept as a line of JSON as soon as it is over, so a proof that was cut off goes on.
"""
