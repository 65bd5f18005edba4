"""What Grampus remembers: records, the operation journal, locks and archived runs."""
