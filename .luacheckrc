-- Redis runs Lua 5.1, and gives scripts these globals.
std = "lua51"
max_line_length = 100
read_globals = { "redis", "cjson", "cmsgpack", "struct", "bit", "KEYS", "ARGV" }
