"""Prepares and uploads repositories for the Hugging Face Hub: the card, the files and the upload."""
