-- What the variance between shards needs of each group of rates.sql, whose CTE judged this follows; see
-- reports/drawn_shards.py. effective_size, of_t: SQL over these sums.
by_shard AS (
    SELECT group_name, shard, count(*) FILTER (is_private) AS k, count(is_private) AS n FROM judged GROUP BY ALL
),
summed AS (
    SELECT group_name, count(*) AS num_shards, sum(k)::DOUBLE AS k, sum(n)::DOUBLE AS n,
        sum(k * k)::DOUBLE AS kk, sum(k * n)::DOUBLE AS kn, sum(n * n)::DOUBLE AS nn
    FROM by_shard
    WHERE n > 0
    GROUP BY group_name
),
sized AS (
    SELECT group_name, num_shards, {effective_size} AS effective_size, {of_t} AS of_t, n AS num_judged FROM summed
),
