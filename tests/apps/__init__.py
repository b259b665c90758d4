"""Applications in place of the network."""
