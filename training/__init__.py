"""Training: `vaswani train RECIPE`, or `accelerate launch -m training.train RECIPE`."""
