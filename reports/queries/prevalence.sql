-- How often does each attribute appear? One row per attribute.
-- share: present among the images where it was assessed; null where it never was, since that is not 0.
SELECT attribute, attribute_level,
    count(*) FILTER (value = 1) AS num_present,
    count(*) FILTER (value = 0.5) AS num_ambiguous,
    count(*) FILTER (value = 0) AS num_absent,
    count(*) FILTER (value IS NULL) AS num_not_assessed,
    count(*) FILTER (value = 1) / nullif(count(value), 0) AS share
FROM attributes
WHERE status = 'scored'
GROUP BY attribute, attribute_level;
