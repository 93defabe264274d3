"""Reads untrusted files. Each function returns the file's content or raises an error that says what is wrong."""
