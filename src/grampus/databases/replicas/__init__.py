"""Read replicas: databases that follow another one, made from its clones, and let go from it."""
