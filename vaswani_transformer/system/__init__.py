"""Helpers for files, memory, the CPU, processes, the web and the command line. Nothing here knows the model."""
