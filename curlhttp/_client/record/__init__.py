"""Recordings: what happened on the wire as HAR 1.2, played back in place of the network."""
