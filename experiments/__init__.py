"""The paper's claims about its own parts, tried again at a size that two CPU cores can pay for: see README.md."""
