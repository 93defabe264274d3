"""The paper's claims about its own parts, repeated at a size that two CPU cores can train: see README.md."""
