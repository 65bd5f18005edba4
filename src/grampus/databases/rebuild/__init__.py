"""What the images say of the databases that they hold, and a lost state made of that again."""
