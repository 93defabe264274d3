"""Training from scratch: `python -m training.train RECIPE`, or `accelerate launch -m training.train RECIPE`."""
