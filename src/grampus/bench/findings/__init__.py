"""What the visits of a run say: figures of cells, effects of arms, conclusions of the sources."""
