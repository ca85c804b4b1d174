"""Code that several products share. It imports none of them."""
