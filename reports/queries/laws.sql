-- How many scored images show at least one attribute of each set? One row, with a pair of columns for each set.
-- counts: for each set, images that show one of it, and images in which an attribute of it that was not found was not
-- judged either.
SELECT {counts}
FROM patterns;
