"""How much memory and how many threads a volume takes on its host."""
