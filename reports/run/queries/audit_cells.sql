-- How many scored images are in each cell of each subject, by what the run answers (reports/audit/cells.py)?
-- scored: the scored images (reports/audit/cells.py). category: SQL value that groups them. cells: "SQL AS cell_…" of each subject. sets: one grouping set each.
-- subject, cell: SQL that finds the one cell column of a group that is not null.
WITH celled AS (SELECT {category} AS category, {cells} FROM {scored})
SELECT category, {subject} AS subject, {cell} AS cell, count(*) AS num_images
FROM celled
GROUP BY GROUPING SETS ({sets});
