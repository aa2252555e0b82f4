"""The comparison as one self-contained HTML page: `render.py` fills `page.html.j2`."""
