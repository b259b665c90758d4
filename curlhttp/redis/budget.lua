-- Counts deposits and withdrawals by tenths of a window, like RetryBudget in _features/retry/policy.py.
-- KEYS: the balance. ARGV: a tenth of the window in microseconds; the deposit; the reserve; the
-- withdrawal, negative for a refund.
-- Returns whether the balance was sufficient, and the rest.
local slice, paid = tonumber(ARGV[1]), tonumber(ARGV[2])
local reserve, cost = tonumber(ARGV[3]), tonumber(ARGV[4])
local newest = math.floor(now / slice)
local flat, sum, own = redis.call('HGETALL', KEYS[1]), paid, paid
for i = 1, #flat, 2 do
    local index, counted = tonumber(flat[i]), tonumber(flat[i + 1])
    if not index or not counted then return redis.error_reply('CURLHTTP: no budget') end
    if index <= newest - 10 or index > newest then
        redis.call('HDEL', KEYS[1], flat[i])
    else
        sum = sum + counted
        if index == newest then own = own + counted end
    end
end
local is_enough = sum + reserve >= cost - 1e-9
if is_enough then sum, own = sum - cost, own - cost end
if paid > 0 or (is_enough and cost ~= 0) then
    redis.call('HSET', KEYS[1], string.format('%.17g', newest), string.format('%.17g', own))
    redis.call('PEXPIRE', KEYS[1], math.ceil(slice * 11 / 1000))
end
return {is_enough and 1 or 0, string.format('%.17g', sum + reserve)}
