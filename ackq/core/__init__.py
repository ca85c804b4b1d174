"""What several products share. It knows none of them."""
