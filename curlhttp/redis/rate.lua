-- Reserves a time to send: the generic cell rate algorithm (ITU-T I.371), like RateLimit in
-- _features/limits/policy.py.
-- KEYS: the rate; reservations that were cancelled, by their time.
-- ARGV: interval, tolerance, patience or -1, how late the last reservation was used; microseconds.
-- Returns whether it is granted, how long to wait, its time, and its name.
local interval, tolerance = tonumber(ARGV[1]), tonumber(ARGV[2])
local patience, late = tonumber(ARGV[3]), tonumber(ARGV[4])
local kept = redis.call('HMGET', KEYS[1], 'due', 'owed', 'share', 'seen')
local due, owed, share = tonumber(kept[1]) or now, tonumber(kept[2]) or 0, tonumber(kept[3]) or 0
local seen = tonumber(kept[4]) or now
if now < seen then due = due - (seen - now) end  -- the clock was set back

local function answer(turn, mark)
    return {1, math.ceil(turn - now), string.format('%.17g', turn), mark}
end

local turn = math.max(due - tolerance, now)
local freed = redis.call('ZRANGEBYSCORE', KEYS[2], now - 45000, turn, 'WITHSCORES', 'LIMIT', 0, 1)
if freed[1] then turn = math.max(tonumber(freed[2]), now) end
if patience >= 0 and turn - now > patience then
    return {0, math.ceil(turn - now)}
end
if freed[1] then
    redis.call('ZREM', KEYS[2], freed[1])
    return answer(turn, freed[1])
end

owed = math.max(0, owed - math.max(0, now - due))  -- a pause reduces what is owed
-- After a pause, the first requests connect and load modules, so they arrive later than those that
-- follow them, and the second that begins then would have more than the rate.
if due <= now then late = math.max(late, 45000) end
if late > owed then
    owed, share = late, math.max(share, late)
end
-- What a burst sends at once does not wait for this.
local repaid = turn > now and math.min(owed, share / 1e6 * interval) or 0
owed = owed - repaid
if owed <= 0 then share = 0 end
due = math.max(due, now) + interval + repaid
local mark = string.format('%.17g', due)
redis.call('HSET', KEYS[1], 'due', mark, 'owed', owed, 'share', share, 'seen', now)
redis.call('PEXPIRE', KEYS[1], math.ceil((due - now) / 1000) + 2000)
return answer(turn, mark)
