-- How often does each attribute appear? One row per attribute.
-- share: present among the images where it was assessed; null where it never was, since that is not 0.
-- Where the engine only ever affirms (no 0 although images are unassessed) that would be 100 %, so there the share is of
-- all scored images: a lower bound.
SELECT answer.attribute AS attribute, answer.attribute_level AS attribute_level,
    coalesce(sum(num_images) FILTER (answer.value = 1), 0)::BIGINT AS num_present,
    coalesce(sum(num_images) FILTER (answer.value = 0.5), 0)::BIGINT AS num_ambiguous,
    coalesce(sum(num_images) FILTER (answer.value = 0), 0)::BIGINT AS num_absent,
    coalesce(sum(num_images) FILTER (answer.value IS NULL), 0)::BIGINT AS num_not_assessed,
    num_absent = 0 AND num_not_assessed > 0 AND num_present + num_ambiguous > 0 AS is_lower_bound,
    num_present / nullif(
        num_present + num_ambiguous + num_absent + CASE WHEN is_lower_bound THEN num_not_assessed ELSE 0 END, 0
    ) AS share
FROM (SELECT num_images, unnest(answers) AS answer FROM patterns)
GROUP BY ALL;
