"""Each operation on a database under load: what its clients notice, and that no commit is lost."""
