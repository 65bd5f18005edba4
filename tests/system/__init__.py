"""What tests on a real lab share: running the command line, and looking at the machine."""
