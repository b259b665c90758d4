"""What processes share, in Redis: the way there, and what runs inside of it."""
