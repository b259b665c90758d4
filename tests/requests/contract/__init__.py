"""What the drop-in promises, as tests that the real requests passes too."""
