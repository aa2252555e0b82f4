-- Which kinds of evidence do the private images of some groups show? The most frequent ones of each group.
-- Sizes and probabilities inside of a kind are left out, so that equal kinds count together; and so is the answer of
-- the binary protocol, which is no kind.
-- by, private: as in rates.sql. groups: SQL strings, the names of the groups. most: how many kinds of each.
WITH judged AS (
    SELECT coalesce(({by})::VARCHAR, '(none)') AS group_name, rationale
    FROM scored
    WHERE ({private}) AND group_name IN ({groups})
),
tallied AS (SELECT group_name, rationale, count(*) AS num_images FROM judged GROUP BY ALL),
kinds AS (
    SELECT group_name, unnest(list_distinct(string_split(
        regexp_replace(rationale, ', [0-9]+ px wide| \((high|moderate|low) probability\)', '', 'g'), '; '
    ))) AS kind, num_images FROM tallied
),
counted AS (
    SELECT group_name, kind, sum(num_images)::BIGINT AS num_images FROM kinds WHERE kind NOT IN ('', 'private') GROUP BY group_name, kind
)
SELECT group_name, kind, num_images
FROM counted
QUALIFY row_number() OVER (PARTITION BY group_name ORDER BY num_images DESC, kind) <= {most}
ORDER BY group_name, num_images DESC, kind;
