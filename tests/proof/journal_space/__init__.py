"""How much of their OSDs' databases the journals of volumes take."""
