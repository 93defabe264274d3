"""Compares a converted model with the original: the same scores, the same best tokens, the same translations.

The original's outputs are recorded beside the checkpoint, or computed by the toolkit if it is installed.
"""
