local busy, parked, turns, flight, runs = KEYS['+1'], KEYS['+2'], KEYS['+3'], KEYS['+4'], KEYS['+5']
local woken, rates, room = KEYS['+6'], KEYS['+7'], KEYS['+8']
local stopped, letters = KEYS['+9'], KEYS['+10']
local limits, pauses = KEYS['+11'], KEYS['+12']
