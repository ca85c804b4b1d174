-- include: groups/bound

local handoff, looks = KEYS['+13'], KEYS['+14']
