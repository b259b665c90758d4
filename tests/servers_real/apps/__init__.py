"""The application that `program` describes, for application servers: in Python, Node and Go."""
