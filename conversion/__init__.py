"""Brings checkpoints of other toolkits in, takes ours out to runtimes, and publishes them: `python -m conversion`."""
