"""What cells of a matrix stand on: databases, volumes and pools of a benchmark's own."""
