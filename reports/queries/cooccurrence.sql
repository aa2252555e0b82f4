-- Which attributes appear together? One row per ordered pair; an attribute never seen has none.
-- num_images: scored images that show `attribute`. num_assessed: those of them in which `other` was assessed.
-- share: of num_images, those that show `other` too; null where `other` was assessed in none of them.
-- Where it was not assessed in some, as where an engine affirms an attribute but never rules it out, the share is a
-- lower bound: of the assessed images alone such an attribute would be in 100 %.
WITH present AS (
    SELECT unnest(list_filter(answers, lambda answer: answer.value = 1)) AS shown, answers
    FROM answers
    WHERE status = 'scored'
),
pairs AS (SELECT shown.attribute AS attribute, unnest(answers) AS other FROM present)
SELECT attribute, other.attribute AS other,
    count(*) FILTER (other.value = 1) AS num_both,
    count(*) AS num_images,
    count(other.value) AS num_assessed,
    CASE WHEN num_assessed > 0 THEN num_both / num_images END AS share,
    num_assessed > 0 AND num_assessed < num_images AS is_lower_bound
FROM pairs
GROUP BY ALL;
