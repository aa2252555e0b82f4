-- How many images are there if those with the same perceptual hash count once, and how private are they?
-- by, private: as in rates.sql. The vote of a picture is the share of its copies that are private. Images without a hash
-- are a picture of their own. Images for which the condition is unknown are left out.
-- group_name null: over all groups, where copies in different groups count once.
WITH judged AS (
    SELECT coalesce(({by})::VARCHAR, '(none)') AS group_name,
        coalesce(TRY_CAST('0x' || phash AS UBIGINT)::HUGEINT, -1 - hash(shard, "index")::HUGEINT) AS picture,
        ({private})::BOOLEAN AS is_private
    FROM scored
),
in_group AS (
    SELECT group_name, picture, count(*) AS num_images, count(*) FILTER (is_private) AS num_private
    FROM judged
    WHERE is_private IS NOT NULL
    GROUP BY ALL
),
overall AS (
    SELECT picture, sum(num_images) AS num_images, sum(num_private) AS num_private FROM in_group GROUP BY picture
)
SELECT group_name, sum(num_images)::BIGINT AS num_images, sum(num_private)::BIGINT AS num_private,
    count(*) AS num_distinct,
    max(num_images)::BIGINT AS num_in_largest, avg(num_private / num_images) AS rate_distinct
FROM in_group
GROUP BY group_name
UNION ALL
SELECT NULL, coalesce(sum(num_images), 0)::BIGINT, coalesce(sum(num_private), 0)::BIGINT, count(*),
    coalesce(max(num_images), 0)::BIGINT, avg(num_private / num_images)
FROM overall;
