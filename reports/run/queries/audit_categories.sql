-- The categories of the scored images. category: SQL value that groups them. most: how many at most.
SELECT DISTINCT {category} AS category FROM scored LIMIT {most};
