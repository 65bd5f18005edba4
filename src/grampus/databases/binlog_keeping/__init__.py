"""How long a server's binary logs are kept: until nobody needs them, and within bounds of space."""
