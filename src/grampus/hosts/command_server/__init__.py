"""One process a host that runs command after command: starting one anew costs more than most do."""
