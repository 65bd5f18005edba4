"""Every layer under a trial on one clock, and which of them was its bottleneck."""
