"""Whether Grampus' verdicts hold: they are tried on simulated machines whose truth is known."""
