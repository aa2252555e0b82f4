"""Texts that begin like pictures, and pictures that are text."""

CAPTIONS = (
    b"Image type: photograph. A dog.",
    b"DDS practice sign",
    b"P5 10 20 30",
    b"FTEX",
    b"icns",
    b"MMOR",
    b"FLIF is a format",
    b"<svg is great",
    b"<svg> is a tag",
    b"8BPS, qoif and BLP2 are formats too",
    b"LinS and DanM, two friends at the sea shore",
    b"gimp xcf files on a screen",
    b"SIMPLE  = better",
    b"AT&TFORM",
    b"#define _width",
    b"/* XPM */ on a mug",
    b"P7 for short",
)

LIKE_PICTURES = (b"GIF89a is from 1989", b"P5 10 20 30 miles", b"%PDF-1.7 and later", b"%!PS-", b"FUJIFILMCCD-RAW 0201")

TEXT_PICTURES = (
    b"<svg xmlns='http://www.w3.org/2000/svg'/>",
    b"<?xml version='1.0'?>\n<!DOCTYPE svg PUBLIC 'x' 'y'>\n<svg>",
    b"P1\n# drawn\n3 2\n101\n010\n",
    b"P3 2 1 255 1 2 3 4 5 6",
    b"P5\n2 2\n126\nabcd",
    b"P7\nWIDTH 2\n",
    b"#define a_width 16\n#define a_height 16\nstatic char",
    b"/* XPM */\nstatic char *x[] = {",
    b"%!PS-Adobe-3.0 EPSF-3.0\n",
    b"%PDF-1.4\n1 0 obj",
)
