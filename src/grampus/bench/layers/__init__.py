"""Every layer under a visit on one clock, and which of them was its bottleneck."""
