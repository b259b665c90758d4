-- Cancels a reservation. KEYS: see rate.lua. ARGV: interval; the time and name of the reservation.
local due = redis.call('HGET', KEYS[1], 'due')
local turn = tonumber(ARGV[2])
if due == ARGV[3] then  -- the last one: nothing was reserved after it
    redis.call('HSET', KEYS[1], 'due', string.format('%.17g', tonumber(due) - tonumber(ARGV[1])))
elseif due and turn > now - 45000 then
    redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now - 45000)
    redis.call('ZADD', KEYS[2], string.format('%.17g', turn), ARGV[3])
    redis.call('PEXPIRE', KEYS[2], math.ceil((tonumber(due) - now) / 1000) + 2000)
end
return {1}
