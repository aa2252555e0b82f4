-- Some private images of each group, drawn at random by their hashes: their kinds of evidence.
-- Sizes and probabilities are left out, as in evidence.sql.
-- by, private: as in rates.sql. groups: SQL strings, the names of the groups. most: how many images of each.
WITH judged AS (
    SELECT coalesce(({by})::VARCHAR, '(none)') AS group_name, shard, "index", sha256, key,
        regexp_replace(rationale, ', [0-9]+ px wide| \((high|moderate|low) probability\)', '', 'g') AS kinds
    FROM scored
    WHERE ({private}) AND group_name IN ({groups}) AND rationale <> ''
)
SELECT group_name, kinds
FROM judged
QUALIFY row_number() OVER (PARTITION BY group_name ORDER BY md5(sha256), shard, "index") <= {most}
ORDER BY group_name, kinds;
