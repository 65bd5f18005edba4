"""The pages of docs/reference, rendered from the code.

`commands` renders the command line, one page for each noun; `error_codes` the codes of errors, from
the source; `schemas` the JSON schemas of suites and runs. Nothing here writes a file:
`scripts/write_reference.py` does.
"""
