-- Which attributes appear together? One row per ordered pair; an attribute never seen has none.
-- num_images: scored images that show `attribute`. num_assessed: those of them in which `other` was assessed.
-- share: of num_images, those that show `other` too; null where `other` was assessed in none of them.
-- Where it was not assessed in some, as where an engine affirms an attribute but never rules it out, the share is a
-- lower bound: of the assessed images alone such an attribute would be in 100 %.
WITH present AS (
    SELECT unnest(list_filter(answers, lambda answer: answer.value = 1)) AS shown, answers, num_images AS weight
    FROM patterns
),
pairs AS (SELECT shown.attribute AS attribute, unnest(answers) AS other, weight FROM present)
SELECT attribute, other.attribute AS other,
    coalesce(sum(weight) FILTER (other.value = 1), 0)::BIGINT AS num_both,
    sum(weight)::BIGINT AS num_images,
    coalesce(sum(weight) FILTER (other.value IS NOT NULL), 0)::BIGINT AS num_assessed,
    CASE WHEN num_assessed > 0 THEN num_both / num_images END AS share,
    num_assessed > 0 AND num_assessed < num_images AS is_lower_bound
FROM pairs
GROUP BY ALL;
