-- Acquires, renews or releases one of the leases of concurrent requests. A lease expires unless it
-- is renewed, and so does a place in the queue.
-- KEYS: the leases, by expiry; the queue, in its order; the places in the queue, by expiry.
-- ARGV: the step; the name of the lease; how many leases there are; how long a lease lasts, and how
-- long a place in the queue, in microseconds; whether to join the queue.
-- Returns whether the lease was granted, and how many are before it in the queue.
local step, whose, most = ARGV[1], ARGV[2], tonumber(ARGV[3])
local lasts, patience = tonumber(ARGV[4]), tonumber(ARGV[5])
local function at(moment) return string.format('%.17g', moment) end

local function hold()
    redis.call('ZADD', KEYS[1], at(now + lasts), whose)
    redis.call('PEXPIRE', KEYS[1], math.ceil(lasts / 1000))
end

local function leave_line(name)
    redis.call('ZREM', KEYS[2], name)
    redis.call('ZREM', KEYS[3], name)
end

if step == 'leave' then
    redis.call('ZREM', KEYS[1], whose)
    leave_line(whose)
    return {1, 0}
end
if step == 'keep' then
    hold()
    return {1, 0}
end
-- If the clock was set back, nothing must last longer.
for i, longest in pairs({[1] = now + lasts, [3] = now + patience}) do
    for _, name in ipairs(redis.call('ZRANGEBYSCORE', KEYS[i], '(' .. at(longest), '+inf')) do
        redis.call('ZADD', KEYS[i], at(longest), name)
    end
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', at(now))
for _, name in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', at(now))) do leave_line(name) end
local free = most - redis.call('ZCARD', KEYS[1])
local before = redis.call('ZRANK', KEYS[2], whose) or redis.call('ZCARD', KEYS[2])
if before < free then
    leave_line(whose)
    hold()
    return {1, 0}
end
if ARGV[6] == '1' then
    redis.call('ZADD', KEYS[2], 'NX', at(now), whose)
    redis.call('ZADD', KEYS[3], at(now + patience), whose)
    redis.call('PEXPIRE', KEYS[2], math.ceil(patience / 1000))
    redis.call('PEXPIRE', KEYS[3], math.ceil(patience / 1000))
end
return {0, before - free}
