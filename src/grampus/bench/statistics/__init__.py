"""What lets a verdict hold on a shared, noisy machine: pure statistics, standard library only."""
