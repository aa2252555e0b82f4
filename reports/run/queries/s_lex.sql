-- How many scored images have each s_lex? From the distinct answers, so without a pass over the rows.
-- weight: what an attribute of `attribute_level` adds, as in scoring.severity.
WITH numbered AS (SELECT row_number() OVER () AS number, answers, num_images FROM patterns),
weighed AS (
    SELECT number, num_images, unnest(answers).attribute_level AS attribute_level, unnest(answers).value AS value
    FROM numbered
),
summed AS (
    SELECT number, any_value(num_images) AS num_images,
        coalesce(sum({weight}) FILTER (value = 1), 0)::BIGINT AS s_lex
    FROM weighed
    GROUP BY number
)
SELECT s_lex, sum(num_images)::BIGINT AS num_images FROM summed GROUP BY s_lex;
