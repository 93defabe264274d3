"""Training from scratch: `vaswani train RECIPE`, or `accelerate launch -m training.train RECIPE`."""
