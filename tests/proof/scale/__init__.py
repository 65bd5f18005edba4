"""What commands and `grampus serve` take with a thousand databases in the state."""
