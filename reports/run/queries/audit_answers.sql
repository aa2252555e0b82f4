-- What does the run answer, in each category? Of each subject: yes, no, and any answer at all.
-- category: SQL value that groups the images. counts: aggregates of each subject.
SELECT {category} AS category, sum(mass) AS num_scored, {counts}
FROM {scored}
GROUP BY ALL;
