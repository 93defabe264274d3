"""From a model to a repository of the Hugging Face Hub: its card, what it contains, and sending it."""
