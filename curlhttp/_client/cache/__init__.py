"""The cache of responses: where they are kept, and how a client uses it."""
