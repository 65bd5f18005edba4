"""Whether what a database holds is right: on every OSD, and in every table."""
