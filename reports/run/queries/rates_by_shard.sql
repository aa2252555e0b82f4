-- What the variance between shards needs of each group of rates.sql, whose CTE judged this follows; see
-- reports/run/drawn_shards.py. residual, effective_size, degrees, of_t: SQL over these columns.
by_shard AS (
    SELECT group_name, shard, count(*) FILTER (is_private) AS k_i, count(is_private) AS n_i
    FROM judged
    GROUP BY ALL
    HAVING n_i > 0
),
residuals AS (
    SELECT group_name, k_i, n_i, sum(k_i) OVER of_group AS k_all, sum(n_i) OVER of_group AS n_all,
        {residual} AS e_i
    FROM by_shard
    WINDOW of_group AS (PARTITION BY group_name)
),
summed AS (
    SELECT group_name, count(*) AS num_shards, sum(k_i)::DOUBLE AS k, sum(n_i)::DOUBLE AS n,
        sum(pow(e_i, 2)) AS squares, sum(pow(e_i, 4)) AS fourths
    FROM residuals
    GROUP BY group_name
),
sized AS (
    SELECT group_name, num_shards, n AS num_judged, {effective_size} AS effective_size, {degrees} AS degrees,
        {of_t} AS of_t
    FROM summed
),
