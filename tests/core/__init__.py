"""What the products share."""
