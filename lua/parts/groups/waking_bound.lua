-- include: groups/bound

local handoff, looks = KEYS['+11'], KEYS['+12']
