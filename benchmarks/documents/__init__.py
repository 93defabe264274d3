"""Real public documents: whether a translation leaves everything but the texts as it is."""
