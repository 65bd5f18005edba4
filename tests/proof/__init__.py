"""The crash proof: what a flush acknowledged survives real crashes (`make crashes`).

`decide_crashes` says which crash comes when, `ledger_cut` which moment of its past a volume shows,
`outcome` what that means and `render_pages` how it is told: all pure. The rest does the crashing,
on a lab of its own, and keeps each result as soon as it is known, so that a proof that was cut off
goes on where it was.
"""
