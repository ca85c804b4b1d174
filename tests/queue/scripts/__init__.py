"""Each Lua script alone: raw calls, and the key space before and after them."""
