-- Redis runs Lua 5.1, and gives scripts these globals.
std = "lua51"
max_line_length = 100
read_globals = { "redis", "cjson", "cmsgpack", "struct", "bit", "KEYS", "ARGV" }
ignore = { "431" } -- a parameter of an included function may be called like a local of the script
