"""One latency histogram for all drivers: merged exactly, percentiles with their bounds."""
