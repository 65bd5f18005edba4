"""`python -m grampus` is the same as `grampus`."""

from grampus.cli.main import main

main()
