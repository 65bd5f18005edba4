"""Changes of a running database: limits, parameters, its host."""
