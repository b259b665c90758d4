"""Real packages made for requests, on the drop-in: `run` runs one, `test_packages` all."""
