"""Archived runs as one HTML file that opens offline.

`build.py` makes the page of a run, `comparison.py` that of two, `matrix/` that of a matrix suite;
`drawing.py` draws as SVG. Nothing here knows how a verdict was reached, and nothing reads
anything but the archive. A page is written whole or not at all.
"""
