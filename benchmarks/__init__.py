"""What is measured, against whom, with the recorded results."""
