"""Whether Grampus names the layer that was made slow on purpose.

`injections.py` makes one layer of a lab slow from outside, without telling Grampus, while the
suite `suites/checks/injected-bottlenecks.yaml` loads it. `judging.py` decides, as pure functions,
which trials count and which were named correctly, and `page.py` renders docs/proof/bottlenecks.md.
What a killed proof leaves is removed by the next one, with its lab.
"""
