-- Everything in the selected Redis database, as commands that bring it back in one transaction.
-- Sorted, so that equal data gives equal bytes.
local out = {}
local function emit(...)
  local words = {...}
  out[#out + 1] = '*' .. #words .. '\r\n'
  for _, word in ipairs(words) do out[#out + 1] = '$' .. #word .. '\r\n' .. word .. '\r\n' end
end
local function pairs_of(flat)
  local all = {}
  for at = 1, #flat, 2 do all[#all + 1] = {flat[at], flat[at + 1]} end
  return all
end
emit('MULTI')
emit('FLUSHDB')
local keys = redis.call('KEYS', '*')
table.sort(keys)
for _, key in ipairs(keys) do
  local kind = redis.call('TYPE', key).ok
  if kind == 'string' then
    emit('SET', key, redis.call('GET', key))
  elseif kind == 'list' then
    for _, item in ipairs(redis.call('LRANGE', key, 0, -1)) do emit('RPUSH', key, item) end
  elseif kind == 'set' then
    local members = redis.call('SMEMBERS', key)
    table.sort(members)
    for _, member in ipairs(members) do emit('SADD', key, member) end
  elseif kind == 'zset' then
    for _, pair in ipairs(pairs_of(redis.call('ZRANGE', key, 0, -1, 'WITHSCORES'))) do
      emit('ZADD', key, pair[2], pair[1])
    end
  elseif kind == 'hash' then
    local fields = pairs_of(redis.call('HGETALL', key))
    table.sort(fields, function(a, b) return a[1] < b[1] end)
    for _, pair in ipairs(fields) do emit('HSET', key, pair[1], pair[2]) end
  else
    emit('RESTORE', key, '0', redis.call('DUMP', key))
  end
  local ends = redis.call('PEXPIRETIME', key)
  if ends > 0 then emit('PEXPIREAT', key, string.format('%.0f', ends)) end
end
emit('EXEC')
return table.concat(out)
