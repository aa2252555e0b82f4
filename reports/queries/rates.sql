-- What share of each group is private, and how sure is that?
-- by: SQL value that groups the images. private: SQL condition; both are checked before they come here.
-- most: how many groups at most, or ALL.
-- num_scored (N) leaves out quarantined images. Images for which the condition is unknown (null: it, or the level it
-- asks for, depends on an attribute that could not be judged) are in num_unknown and neither in the rate nor in its
-- 95 % Wilson interval; the rate is num_private / (num_scored - num_unknown).
WITH judged AS (
    SELECT coalesce(({by})::VARCHAR, '(none)') AS group_name, status,
        CASE WHEN status = 'scored' THEN ({private})::BOOLEAN END AS is_private
    FROM images
),
counted AS (
    SELECT group_name,
        count(*) FILTER (status = 'scored') AS num_scored,
        count(*) FILTER (is_private) AS num_private,
        count(*) FILTER (status = 'scored' AND is_private IS NULL) AS num_unknown,
        count(*) FILTER (status = 'quarantined') AS num_quarantined
    FROM judged
    GROUP BY group_name
)
SELECT group_name, num_scored, num_private, num_unknown,
    num_private / nullif(num_scored - num_unknown, 0) AS privacy_rate,
    wilson_low(num_private, num_scored - num_unknown) AS rate_low,
    wilson_high(num_private, num_scored - num_unknown) AS rate_high,
    num_quarantined
FROM counted
ORDER BY privacy_rate DESC NULLS LAST, rate_low DESC, group_name
LIMIT {most};
