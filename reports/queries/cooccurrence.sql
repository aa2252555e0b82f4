-- Which attributes appear together? One row per ordered pair; an attribute never seen has none.
-- share: of the images that show `attribute` and where `other` was assessed, those that show `other` too.
WITH present AS (
    SELECT unnest(list_filter(answers, lambda answer: answer.value = 1)) AS shown, answers
    FROM answers
    WHERE status = 'scored'
),
pairs AS (SELECT shown.attribute AS attribute, unnest(answers) AS other FROM present)
SELECT attribute, other.attribute AS other,
    count(*) FILTER (other.value = 1) AS num_both,
    count(other.value) AS num_assessed,
    count(*) FILTER (other.value = 1) / nullif(count(other.value), 0) AS share
FROM pairs
GROUP BY ALL;
