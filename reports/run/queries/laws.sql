-- How many scored images show at least one attribute of each set? One row, with a pair of columns for each set.
-- counts: for each set, images that show one of it, and images that do not, but in which not all of it was judged.
SELECT {counts}
FROM patterns;
