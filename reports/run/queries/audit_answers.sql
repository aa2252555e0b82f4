-- What does the run answer, in each category? Of each subject: yes, no, any answer at all; and all images.
-- category: SQL value that groups the images. counts: aggregates of each subject.
SELECT {category} AS category, {counts}
FROM {scored}
GROUP BY ALL;
