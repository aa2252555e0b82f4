-- How often does each attribute appear? One row per attribute.
-- share: present among the images where it was assessed; null where it never was, since that is not 0.
-- Where the engine only ever affirms (no 0 beside unassessed images) that would be 100 %, so there the share is of
-- all scored images: a lower bound.
SELECT attribute, attribute_level,
    count(*) FILTER (value = 1) AS num_present,
    count(*) FILTER (value = 0.5) AS num_ambiguous,
    count(*) FILTER (value = 0) AS num_absent,
    count(*) FILTER (value IS NULL) AS num_not_assessed,
    num_absent = 0 AND num_not_assessed > 0 AND count(value) > 0 AS is_lower_bound,
    num_present / nullif(CASE WHEN is_lower_bound THEN count(*) ELSE count(value) END, 0) AS share
FROM attributes
WHERE status = 'scored'
GROUP BY attribute, attribute_level;
