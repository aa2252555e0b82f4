-- What share of each group is private, how sure is that, and how severe are its images?
-- by: SQL value that groups the images. private: SQL condition; both are checked before they come here.
-- most: how many groups at most, or ALL. shard, by_shard, of_shards, scale: empty and 1, or what a sample of shards needs.
-- num_scored (N) leaves out quarantined images. Images for which the condition is unknown (null: it, or the level it
-- asks for, depends on an attribute that could not be judged) are in num_unknown and neither in the rate nor in its
-- 95 % Wilson interval; num_screened, left out by a screen, are in none of these; num_guarded and num_missed: what the
-- engine says of pictures that the guard of the screen sent on. The rate is num_private / (num_scored - num_unknown). num_level_N: scored images of that severity_level.
WITH judged AS (
    SELECT coalesce(({by})::VARCHAR, '(none)') AS group_name, {shard}status, severity_level AS level, coalesce(stage = 'guard', false) AS is_guarded,
        CASE WHEN status = 'scored' THEN ({private})::BOOLEAN END AS is_private
    FROM images
),
-- Counting these few combinations first makes one pass over the rows cheaper than a filter for each figure.
{by_shard}tallied AS (SELECT group_name, status, level, is_guarded, is_private, count(*) AS num_images FROM judged GROUP BY ALL),
counted AS (
    SELECT group_name,
        coalesce(sum(num_images) FILTER (status = 'scored'), 0)::BIGINT AS num_scored,
        coalesce(sum(num_images) FILTER (is_private), 0)::BIGINT AS num_private,
        coalesce(sum(num_images) FILTER (status = 'scored' AND is_private IS NULL), 0)::BIGINT AS num_unknown,
        coalesce(sum(num_images) FILTER (status = 'quarantined'), 0)::BIGINT AS num_quarantined,
        coalesce(sum(num_images) FILTER (status = 'screened'), 0)::BIGINT AS num_screened,
        coalesce(sum(num_images) FILTER (is_guarded AND is_private IS NOT NULL), 0)::BIGINT AS num_guarded,
        coalesce(sum(num_images) FILTER (is_guarded AND is_private), 0)::BIGINT AS num_missed,
        coalesce(sum(num_images) FILTER (status = 'scored' AND level = 1), 0)::BIGINT AS num_level_1,
        coalesce(sum(num_images) FILTER (status = 'scored' AND level = 2), 0)::BIGINT AS num_level_2,
        coalesce(sum(num_images) FILTER (status = 'scored' AND level = 3), 0)::BIGINT AS num_level_3,
        coalesce(sum(num_images) FILTER (status = 'scored' AND level = 4), 0)::BIGINT AS num_level_4,
        coalesce(sum(num_images) FILTER (status = 'scored' AND level = 0), 0)::BIGINT AS num_level_0
    FROM tallied
    GROUP BY group_name
)
SELECT group_name, num_scored, num_private, num_unknown,
    num_private / nullif(num_scored - num_unknown, 0) AS privacy_rate,
    wilson_low(num_private * {scale}, (num_scored - num_unknown) * {scale}) AS rate_low,
    wilson_high(num_private * {scale}, (num_scored - num_unknown) * {scale}) AS rate_high,
    num_quarantined, num_screened, num_guarded, num_missed, num_level_1, num_level_2, num_level_3, num_level_4, num_level_0{effective_size}
FROM counted{of_shards}
ORDER BY privacy_rate DESC NULLS LAST, rate_low DESC, group_name
LIMIT {most};
