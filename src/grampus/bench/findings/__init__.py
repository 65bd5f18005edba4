"""What the trials of a run say: figures of cells, effects of arms, conclusions of the sources."""
