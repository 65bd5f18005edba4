"""New certificates for a database whose clients go on, and when those in use end."""
