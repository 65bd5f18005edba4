"""The page of a run of a matrix suite."""
