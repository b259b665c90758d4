"""Applications instead of the network."""
