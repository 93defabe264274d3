"""Compares a converted model with the original: the same scores, the same best tokens, the same translations.

What the original toolkit computes is recorded beside the checkpoint, or comes from the toolkit where it is installed.
"""
