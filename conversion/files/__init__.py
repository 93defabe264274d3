"""Reads files that nobody vouches for: each function returns what the file holds, or says what is wrong with it."""
