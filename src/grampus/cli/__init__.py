"""The command line: one module for each noun, output writers, and the composition root.

- `app.py` runs a command: errors become sentences and exit codes, a dry run its plan, Ctrl-C no
  traceback. `noun.py` imports a word's module when the word is typed.
- `work.py` is what most commands begin with: the lab held, interrupted work recovered, a dry run.
- `composition/` builds services; `output.py` writes tables, details and JSON; `serve.py` and
  `serve_*.py` are the controller's jobs; `background.py` runs long commands with `--async`.

Failure and recovery: every error ends in `errors_shown`, which shows and logs it. Signals end a
command as Ctrl-C does, so what it had begun is undone or waits for the next command.
"""
