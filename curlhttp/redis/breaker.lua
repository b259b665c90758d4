-- One step of a circuit, by the rules of _features/breaker/circuit.py.
-- KEYS: the circuit; its probes, by the time when each was permitted; the results in its window.
-- ARGV: the step, the settings (0 or -1 for none; microseconds), and arguments of the step.
-- Returns the permit: its number, how long requests are refused (-2: not refused, -1: until a
-- reset), whether it is a probe; then the states before and after a change, and the circuit.
local step, threshold = ARGV[1], tonumber(ARGV[2])
local failure_rate, slow_rate = tonumber(ARGV[3]), tonumber(ARGV[4])
local window, window_time, minimum = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local recovery, recovery_max, growth = tonumber(ARGV[8]), tonumber(ARGV[9]), tonumber(ARGV[10])
local permits, half_open_time = tonumber(ARGV[11]), tonumber(ARGV[12])

local flat, c = redis.call('HGETALL', KEYS[1]), {}
for i = 1, #flat, 2 do c[flat[i]] = tonumber(flat[i + 1]) or flat[i + 1] end
if #flat > 0 and not c.state then return redis.error_reply('CURLHTTP: no circuit') end
if #flat == 0 then c.state = 'closed' end
for _, name in ipairs({'standing', 'last', 'failures', 'good', 'slow', 'calls', 'failed', 'slowed',
                       'opens', 'open_for', 'reopens_at', 'refused', 'failed_at'}) do
    c[name] = c[name] or 0
end
local changed, old, new = false, '', ''

local function enter(state)
    if state ~= c.state then old, new = c.state, state end
    c.state = state
    c.failures, c.good, c.slow, c.calls, c.failed, c.slowed = 0, 0, 0, 0, 0, 0
    redis.call('DEL', KEYS[2], KEYS[3])
    if state ~= 'open' and state ~= 'half_open' then c.opens = 0 end
    c.last = math.max(c.last + 1, now)  -- so that no number of an earlier circuit is used again
    c.standing = c.last
    changed = true
end

local function open()
    if c.opens > 0 then
        c.open_for = math.min(math.max(recovery, recovery_max), c.open_for * growth)
    else
        c.open_for = recovery
    end
    c.opens = c.opens + 1
    c.reopens_at = now + c.open_for
    enter('open')
end

local function reaches(rate, limit)
    return limit >= 0 and rate >= limit
end

local function add_to_window(failed, slow)
    if window_time == 0 then
        redis.call('LPUSH', KEYS[3], failed + 2 * slow)
        c.calls, c.failed, c.slowed = c.calls + 1, c.failed + failed, c.slowed + slow
        if c.calls > window then
            local oldest = tonumber(redis.call('RPOP', KEYS[3])) or 0
            c.calls, c.failed = c.calls - 1, c.failed - oldest % 2
            c.slowed = c.slowed - math.floor(oldest / 2)
        end
        return
    end
    local newest = math.floor(now / (window_time / 10))
    local parts, latest = redis.call('HGETALL', KEYS[3]), {0, 0, 0}
    c.calls, c.failed, c.slowed = 1, failed, slow
    for i = 1, #parts, 2 do
        local index, counted = tonumber(parts[i]), cjson.decode(parts[i + 1])
        if index <= newest - 10 or index > newest then
            redis.call('HDEL', KEYS[3], parts[i])
        else
            if index == newest then latest = counted end
            c.calls, c.failed = c.calls + counted[1], c.failed + counted[2]
            c.slowed = c.slowed + counted[3]
        end
    end
    latest = {latest[1] + 1, latest[2] + failed, latest[3] + slow}
    redis.call('HSET', KEYS[3], string.format('%.17g', newest), cjson.encode(latest))
end

local function record_call(failed, slow, good_for)
    -- The client that reports a failure may have had a success in between, which it did not report.
    if good_for >= 0 and now - good_for > c.failed_at and c.failures > 0 then
        c.failures, changed = 0, true
    end
    if failed == 1 then
        c.failures, c.failed_at, changed = c.failures + 1, now, true
    elseif c.failures > 0 then
        c.failures, changed = 0, true
    end
    local opens = threshold > 0 and c.failures >= threshold
    if failure_rate >= 0 or slow_rate >= 0 then
        add_to_window(failed, slow)
        changed = true
        if c.failed + c.slowed > 0 and c.calls >= minimum then
            opens = opens or reaches(c.failed / c.calls, failure_rate)
                or reaches(c.slowed / c.calls, slow_rate)
        end
    end
    if opens then open() end
end

local function record_probe(failed, slow)
    changed = true
    c.failures, c.good, c.slow = c.failures + failed, c.good + 1 - failed, c.slow + slow
    if reaches(c.slow / permits, slow_rate)
        or (c.failures > 0 and failure_rate < 0)
        or reaches(c.failures / permits, failure_rate) then
        open()
    elseif c.good + c.failures >= permits then
        enter('closed')
    end
end

local function text(number) return string.format('%.17g', number) end

local number, refused_for, is_probe = c.standing, -2, 0
if c.state == 'open' then  -- if the clock was set back, the circuit must not stay open longer
    c.reopens_at = math.min(c.reopens_at, now + c.open_for)
end
if step == 'admit' then
    if c.state == 'open' and now >= c.reopens_at then enter('half_open') end
    if c.state == 'half_open' then
        redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now - half_open_time)
        redis.call('ZREMRANGEBYSCORE', KEYS[2], '(' .. text(now), '+inf')
        if redis.call('ZCARD', KEYS[2]) + c.good + c.failures < permits then
            c.last = c.last + 1
            redis.call('ZADD', KEYS[2], text(now), text(c.last))
            number, is_probe = c.last, 1
        else
            local oldest = tonumber(redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2]) or now
            refused_for = math.min(oldest + half_open_time - now, recovery)
        end
        changed = true
    elseif c.state == 'open' then
        refused_for = c.reopens_at - now
    elseif c.state == 'forced_open' then
        refused_for = -1
    end
    if refused_for ~= -2 then c.refused, changed = c.refused + 1, true end
elseif step == 'record' then
    local failed, slow = tonumber(ARGV[14]), tonumber(ARGV[15])
    if c.state == 'closed' then
        if tonumber(ARGV[13]) == c.standing then
            record_call(failed, slow, tonumber(ARGV[16]))
        end
    elseif c.state == 'half_open' and redis.call('ZREM', KEYS[2], ARGV[13]) == 1 then
        record_probe(failed, slow)
    end
elseif step == 'release' then
    redis.call('ZREM', KEYS[2], ARGV[13])
elseif step == 'force' then
    enter(ARGV[13])
end

if changed then
    local fields = {}
    for name, value in pairs(c) do
        fields[#fields + 1] = name
        fields[#fields + 1] = type(value) == 'number' and text(value) or value
    end
    redis.call('HSET', KEYS[1], unpack(fields))
    if c.state == 'forced_open' or c.state == 'forced_closed' then
        redis.call('PERSIST', KEYS[1])
    else
        local rest = math.ceil((c.open_for + window_time + half_open_time) / 1000) + 3600000
        for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, rest) end
    end
end
return {text(number), math.ceil(refused_for), is_probe, old, new, c.state, text(c.standing),
        c.failures, c.calls, c.failed, c.slowed, redis.call('ZCARD', KEYS[2]), c.refused,
        math.ceil(c.reopens_at - now)}
