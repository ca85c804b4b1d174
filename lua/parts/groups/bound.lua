local busy, parked, turns, flight, runs = KEYS[+1], KEYS[+2], KEYS[+3], KEYS[+4], KEYS[+5]
local woken, rates, room, stopped, letters = KEYS[+6], KEYS[+7], KEYS[+8], KEYS[+9], KEYS[+10]
